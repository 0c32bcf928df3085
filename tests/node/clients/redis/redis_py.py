"""Floods a key through redis-py: 20 calls in one pipeline, of which 10 are to pass. Prints what came of it."""

import sys

import redis

port, protocol = int(sys.argv[1]), int(sys.argv[2])
client = redis.Redis(port=port, protocol=protocol, socket_timeout=2, retry=None)
try:
    pipeline = client.pipeline(transaction=False)
    for _ in range(20):
        pipeline.execute_command("CL.THROTTLE", "redis-py", 9, 10, 3600)
    answers = pipeline.execute()
    checked = client.execute_command("RL.CHECK", "alice", "GET /", "COST", 2)
    if isinstance(checked, list):
        checked = dict(zip(checked[::2], checked[1::2]))
    passed = sum(1 for answer in answers if answer[0] == 0)
    print(passed, len(answers) - passed, answers[-1][1], checked[b"remaining"])
except redis.exceptions.ConnectionError:
    print("gone")
