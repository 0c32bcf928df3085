//! `rlnode why ENDPOINT KEY`: why a running node would answer a request as it does.

use clap::Args;
use limiter::ATTRIBUTES_MAX;

use super::Output;
use super::check::parse_attribute;
use super::exchange::fetch_json;
use super::why_words::in_words;
use crate::clock;
use crate::endpoint::http::why::Why as NodeWhy;
use crate::exit::Exit;

/// Ask the node why it would answer a request as it does; spends and changes nothing
#[derive(Debug, Args)]
pub struct Why {
    /// What is called, such as `POST /login`
    endpoint: String,
    /// Who calls
    key: String,
    /// A further fact, such as plan=pro; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, String)>,
    /// Node: HOST:PORT of its HTTP, or the path of its socket [default: $RLNODE_ADDR, else the
    /// default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// Print the JSON object that the node gives
    #[arg(long)]
    json: bool,
}

impl Why {
    /// Asks and prints the answer.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let told = self.ask().and_then(|why| {
            if self.json {
                serde_json::to_string_pretty(&why).map_err(|error| error.to_string())
            } else {
                Ok(in_words(&why, clock::unix_ms()))
            }
        });
        output.tell(told)
    }

    fn ask(&self) -> Result<NodeWhy, String> {
        if self.attributes.len() > ATTRIBUTES_MAX {
            let given = self.attributes.len();
            return Err(format!("there are {given} attributes; give {ATTRIBUTES_MAX} at most"));
        }
        fetch_json(self.addr.as_deref(), &self.path())
    }

    /// The path and query that ask it.
    fn path(&self) -> String {
        let mut path = format!(
            "/v1/why?endpoint={}&key={}",
            percent_encoded(&self.endpoint),
            percent_encoded(&self.key)
        );
        for (name, value) in &self.attributes {
            let (name, value) = (percent_encoded(name), percent_encoded(value));
            path.push_str(&format!("&attr.{name}={value}"));
        }
        path
    }
}

/// `text` as it stands in a query: everything but letters, digits and `-._~` as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_survives_the_query() {
        let why = Why {
            endpoint: "GET /a?b&c=d".into(),
            key: "ä+%".into(),
            attributes: vec![("plan".into(), "p=q".into())],
            addr: None,
            json: false,
        };
        let want = "/v1/why?endpoint=GET%20%2Fa%3Fb%26c%3Dd&key=%C3%A4%2B%25&attr.plan=p%3Dq";
        assert_eq!(why.path(), want);
    }
}
