//! Both clients, and pacers, against a node that answers, is silent, lies or breaks off.

mod asynchronous;
mod blocking;
mod fake_node;
mod pacing;
mod silence;
