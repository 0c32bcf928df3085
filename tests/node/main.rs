//! The built binary as its users meet it: real processes, real sockets, real time.
//!
//! Each module is a promise to a kind of user. A test starts its own node in its own folder at ports
//! that the system chooses, so that all of them can run at once.

mod algorithms;
mod audit;
mod certificates;
mod clients;
mod cluster;
mod cluster_algorithms;
mod cluster_faults;
mod cluster_trust;
mod command_line;
mod compare;
mod configuration;
mod costs;
mod counting;
mod datagrams;
mod demo;
mod descriptors;
mod doors;
mod envoy;
mod every_door;
mod explaining;
mod headers;
mod http_edges;
mod import;
mod keys;
mod memory;
mod memory_algorithms;
mod metering;
mod nginx;
mod operations;
mod peers;
mod protocol;
mod queues;
mod redis;
mod reload;
mod reload_peers;
mod socket_files;
mod stop;
mod streams;
mod support;
mod suspension;
mod trouble;
mod trouble_counted;
mod trouble_network;
mod windows;
