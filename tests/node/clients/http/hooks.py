"""What is changed of the bodies that are made up: JSON knows one kind of number, and 5.0 is whole to a schema. The
node takes whole numbers without a point alone, on purpose, and says so in words."""

import schemathesis


def without_points(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [without_points(element) for element in value]
    if isinstance(value, dict):
        return {name: without_points(member) for name, member in value.items()}
    return value


@schemathesis.hook
def map_body(context, body):
    return without_points(body)
