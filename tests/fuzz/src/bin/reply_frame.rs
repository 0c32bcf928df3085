//! A reply frame that can be read, written again, reads the same but for details that are cut.
#![no_main]

use limiter::{Decision, Verdict, Wait};
use rlnode_fuzz::fuzz_target;
use wire::{
    Answer, Detail, FRAME_BYTES_MAX, LIMIT_NAME_BYTES_MAX, Reply, ReplyWriter, ServerFrame, Status,
    decode_reply, frame_length, write_error,
};

fuzz_target!(|bytes: &[u8]| {
    match decode_reply(bytes) {
        Ok(ServerFrame::Reply(reply)) => check_reply(bytes, &reply),
        Ok(ServerFrame::Error { id, code, .. }) => {
            let mut written = Vec::new();
            write_error(&mut written, id, code);
            let again = decode_reply(&written).expect("what was written is sound");
            let ServerFrame::Error { id: id_again, code: code_again, .. } = again else {
                panic!("an error became {again:?}")
            };
            assert_eq!((id_again, code_again), (id, code));
        }
        Err(_) => {}
    }
});

fn check_reply(bytes: &[u8], reply: &Reply<'_>) {
    assert_eq!(frame_length(bytes), Ok(Some(bytes.len())));
    let answers: Vec<Result<Answer<'_>, Status>> = reply.answers().collect();
    assert_eq!(answers.len(), reply.len());
    let decided: Option<Vec<_>> = answers.iter().map(decision_of).collect();
    let Some(decided) = decided else {
        return;
    };

    let mut written = Vec::new();
    let mut writer = ReplyWriter::bounded(&mut written, reply.id, answers.len(), FRAME_BYTES_MAX);
    for answer in &decided {
        match answer {
            Ok((decision, reset_at_ms)) => writer.decision(decision, *reset_at_ms),
            Err(status) => writer.status(*status),
        }
    }
    writer.finish();
    assert!(written.len() <= FRAME_BYTES_MAX);
    let Ok(ServerFrame::Reply(again)) = decode_reply(&written) else {
        panic!("what was written is no reply")
    };
    assert_eq!((again.id, again.len()), (reply.id, reply.len()));
    for (answer, again) in answers.iter().zip(again.answers()) {
        match (answer, &again) {
            (Ok(answer), Ok(again)) => assert_same(answer, again),
            (Err(status), Err(again)) => assert_eq!(status, again),
            _ => panic!("{answer:?} became {again:?}"),
        }
    }
}

fn assert_same(answer: &Answer<'_>, again: &Answer<'_>) {
    let head =
        |a: &Answer<'_>| (a.allowed, a.reason, a.freshness, a.limit, a.remaining, a.stale_ms);
    let times = |a: &Answer<'_>| (a.reset_after, a.reset_at_ms, a.retry_after, a.delay);
    assert_eq!(head(answer), head(again));
    assert_eq!(times(answer), times(again));
    assert_eq!(answer.limit_name, again.limit_name);
    assert!(again.details.len() <= answer.details.len());
    assert_eq!(again.details_cut, again.details.len() < answer.details.len());
    assert!(answer.details.clone().zip(again.details.clone()).all(|(a, b)| a == b));
}

type Decided<'a> = Result<(Decision<'a>, Option<u64>), Status>;

/// The decision that the answer was made of; none if no node of this version could have made it.
fn decision_of<'a>(answer: &Result<Answer<'a>, Status>) -> Option<Decided<'a>> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => return Some(Err(*status)),
    };
    let details: Option<Vec<_>> =
        answer.details.clone().map(|detail| verdict_of(&detail)).collect();
    let verdict = verdict_of(&Detail {
        limit_name: answer.limit_name,
        allowed: answer.allowed,
        reason: answer.reason,
        shadow: false,
        limit: answer.limit,
        remaining: answer.remaining,
        reset_after: answer.reset_after,
        retry_after: answer.retry_after,
        delay: answer.delay,
    });
    let decision = Decision {
        verdict: verdict?,
        freshness: answer.freshness?,
        stale_ms: answer.stale_ms,
        details: details?,
    };
    Some(Ok((decision, answer.reset_at_ms)))
}

fn verdict_of<'a>(detail: &Detail<'a>) -> Option<Verdict<'a>> {
    (detail.limit_name.len() <= LIMIT_NAME_BYTES_MAX).then_some(Verdict {
        limit_name: detail.limit_name,
        allowed: detail.allowed,
        reason: detail.reason?,
        shadow: detail.shadow,
        limit: detail.limit,
        remaining: detail.remaining,
        reset_after: detail.reset_after,
        retry_after: detail.retry_after,
        delay: detail.delay,
        window: Wait::ZERO,
    })
}
