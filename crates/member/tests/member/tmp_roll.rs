//! tmp
use crate::fleet::{Fleet, acquire, is_whole, left, spend, until};
#[tokio::test]
async fn tmp_roll() {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_thread_ids(true)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .with_env_filter("member=debug")
        .try_init();
    let fleet = Fleet::new(&["a", "b", "c"]);
    let mut members = fleet.start_all().await;
    spend(&members, "k", 94).await;
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        eprintln!("STEP {name} {:?}", members.iter().map(|m| left(m, "k")).collect::<Vec<_>>());
        members[index].leave().await;
        eprintln!("LEFT {name} {:?}", members.iter().map(|m| left(m, "k")).collect::<Vec<_>>());
        members[index] = fleet.start(name);
        for member in &members {
            until("all are counted", || is_whole(member, 3)).await;
        }
    }
    let mut n = 0;
    let l = || members.iter().map(|m| left(m, "k")).collect::<Vec<_>>();
    eprintln!("END {:?}", l());
    for _ in 0..4 {
        for m in &members {
            for _ in 0..5 {
                let p = acquire(m, "k", 1).await;
                if p == 1 {
                    n += p;
                    eprintln!("{n} by {} left {:?}", m.status().cluster.node, l());
                }
            }
        }
    }
    assert_eq!(n, 6);
}
