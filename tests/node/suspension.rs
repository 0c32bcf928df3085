//! A process that was stopped for a while: the time counts, and not more than a bucket holds.
//!
//! A step of the wall clock (TM-02) is not shown here: nothing but the machine's own clock can be
//! set without a foreign library. It is shown on the limiter, whose buckets have the time of
//! `CLOCK_BOOTTIME` alone and whose windows are told of the wall clock once a second.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Answer, Config, Node, Refusal, Surface, check, pause};

/// TM-04: two seconds of SIGSTOP fill what two seconds fill, capped at the capacity, and the timers
/// of those two seconds do not all fire at once.
#[test]
fn time_passes_for_a_stopped_process_up_to_the_capacity() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"refills\"\nrate = \"10/2s\"\n\
         [[limit]]\nname = \"slow\"\nattributes = { slow = \"yes\" }\nrate = \"10/20s\"\n",
    ));
    let mut caller = node.caller(Surface::Udp);
    let eleven = vec![check("", "alice"); 11];
    let allowed = |answers: Vec<Result<Answer, Refusal>>| {
        answers.into_iter().filter(|it| it.as_ref().is_ok_and(|it| it.allowed)).count()
    };
    assert_eq!(allowed(caller.ask_all(&eleven)), 10);
    let slow = vec![check("", "bob").with_attribute(b"slow", b"yes"); 11];
    assert_eq!(allowed(caller.ask_all(&slow)), 10);

    node.suspend();
    pause(Duration::from_millis(2_100));
    node.signal(Signal::CONT);

    assert_eq!(allowed(caller.ask_all(&eleven)), 10, "all are back, and not one more");
    let back = allowed(caller.ask_all(&slow));
    assert!((1..=4).contains(&back), "{back} of a unit every two seconds");
}
