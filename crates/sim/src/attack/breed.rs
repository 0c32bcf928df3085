//! Attacks drawn from chance, each of parts that were found to hurt, and small changes to them.

use limiter::Accuracy;

use super::plan::{
    Attack, END_US_MAX, FAULTS_MAX, Fault, KEYS_MAX, LINES_MAX, Line, MOVES_MAX, Move,
};
use super::{Aim, Family, Scale};
use crate::dice::Dice;
use crate::scenario::everyone;

/// A millisecond and a second, in µs.
const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
/// Latest time of a move or a fault that is drawn, in µs.
const DRAWN_US_MAX: u64 = 12 * SECOND;
/// Longest delay, jitter and loss of an attack in which nobody may be lost.
const DELAYS_US: [u64; 7] = [200, 1_000, 1_000, 1_000, 1_000, 5_000, 20_000];
const SLOW_US: [u64; 4] = [3_000, 8_000, 20_000, 50_000];
const BURSTS_LARGE: [u64; 6] = [100, 200, 300, 1000, 1000, 1000];
const BURSTS_SMALL: [u64; 9] = [1, 2, 3, 5, 10, 20, 20, 50, 99];
const WINDOWS_MS: [u64; 8] = [50, 100, 300, 1_000, 1_000, 10_000, 60_000, 3_600_000];

/// An attack with `aim` drawn from `dice`.
pub(super) fn draw(aim: &Aim, dice: &mut Dice) -> Attack {
    let is_slow = dice.below(4) == 0;
    let mut attack = Attack {
        nodes: aim.nodes,
        seed: dice.below(1 << 20),
        accuracy: aim.accuracy,
        burst: a_burst(aim.scale, dice),
        window_ms: dice.one_of(&WINDOWS_MS),
        wait_ms: if aim.accuracy == Accuracy::Fast { 0 } else { dice.one_of(&[5, 5, 5, 20]) },
        delay_us: dice.one_of(&DELAYS_US),
        jitter_us: dice.one_of(&[0, 0, 0, 0, 500, 5_000]),
        loss_ppm: dice.one_of(&[0, 0, 0, 0, 0, 20_000]),
        lines: Vec::new(),
        moves: Vec::new(),
        faults: Vec::new(),
    };
    if is_slow {
        let (node, delay_us) = (1 << dice.place(aim.nodes), dice.one_of(&SLOW_US));
        let all = everyone(aim.nodes);
        attack.lines.push(Line { from: node, to: all, delay_us });
        attack.lines.push(Line { from: all, to: node, delay_us });
    }
    let mut at_us = dice.below(300 * MS);
    for _ in 0..dice.between(2, 9) {
        let step = a_move(&attack, at_us, dice);
        // What takes long is accompanied, or waited for.
        at_us += if dice.below(2) == 0 { step.within_us } else { 0 } + a_gap(&attack, dice);
        attack.moves.push(step);
    }
    if aim.family == Family::Disturbed {
        for _ in 0..dice.between(1, FAULTS_MAX as u64) {
            let fault = a_fault(&attack, dice);
            attack.faults.push(fault);
        }
    }
    in_bounds(&mut attack);
    attack
}

fn a_burst(scale: Scale, dice: &mut Dice) -> u64 {
    match scale {
        Scale::Large => dice.one_of(&BURSTS_LARGE),
        Scale::Small => dice.one_of(&BURSTS_SMALL),
    }
}

/// One of the things that attacks are made of.
fn a_move(attack: &Attack, at_us: u64, dice: &mut Dice) -> Move {
    let (nodes, burst) = (some_nodes(attack.nodes, dice), attack.burst);
    let share = burst.div_ceil(attack.nodes as u64);
    let within_us = dice.one_of(&[0, 0, 300, 2 * MS, 10 * MS, 100 * MS]);
    let step_us = dice.one_of(&[0, 0, 0, 60, -60, 400, -400, 2_000, -2_000]);
    let step = Move { at_us, nodes, key: 0, count: 1, cost: 1, within_us, step_us };
    match dice.below(8) {
        // A whole allowance or more, at one instant.
        0 | 1 => Move { count: dice.one_of(&[share, burst / 2, burst, burst + burst / 2]), ..step },
        // Just under what asks for an early flush.
        2 => Move { count: share * 24 / 100, ..step },
        // A share is earned.
        3 => {
            let within_us = dice.between(100, 2_000) * MS;
            Move { count: burst * dice.between(1, 4) / 2, within_us, step_us: 0, ..step }
        }
        // Claims too small for a peer to publish for.
        4 => {
            let (count, within_us) = (dice.between(1, 20), dice.between(10, 300) * MS);
            Move { count, within_us, ..step }
        }
        // Hot keys eat the budget of early flushes.
        5 => {
            let key = 1 + dice.place(KEYS_MAX - 1);
            let length_ms = dice.between(20, 400);
            let within_us = length_ms * MS;
            Move { key, count: length_ms * dice.between(1, 3), within_us, step_us: 0, ..step }
        }
        // Costs above any share are reserved.
        _ => {
            let cost = (burst * dice.between(2, 100) / 100).max(1);
            Move { cost, count: dice.between(1, 4), ..step }
        }
    }
}

/// Time to the next move, in µs.
fn a_gap(attack: &Attack, dice: &mut Dice) -> u64 {
    match dice.below(6) {
        // Before anything of the move is told.
        0 => dice.below(500),
        // While it is told.
        1 => 500 + dice.below(2 * attack.delay_us),
        // Around an acknowledgement.
        2 => 2 * attack.delay_us + dice.below(2 * MS),
        // Around the deadline of a hold.
        3 => attack.wait_ms * MS + dice.below(2 * MS),
        4 => wide(SECOND / 4, dice),
        _ => wide(2 * SECOND, dice),
    }
}

/// A number up to `most` of which every magnitude is as likely.
fn wide(most: u64, dice: &mut Dice) -> u64 {
    let bits = u64::from(u64::BITS - most.leading_zeros());
    (dice.word() >> (u64::BITS as u64 - 1 - dice.below(bits))).min(most)
}

fn some_nodes(nodes: usize, dice: &mut Dice) -> u64 {
    let all = everyone(nodes);
    let one = 1 << dice.place(nodes);
    match dice.below(5) {
        0 | 1 => all,
        2 => one,
        3 => all & !one,
        _ => (dice.word() & all) | one,
    }
}

/// A fault around a move.
fn a_fault(attack: &Attack, dice: &mut Dice) -> Fault {
    let around_us = attack.moves[dice.place(attack.moves.len())].at_us;
    let from_us = (around_us + wide(SECOND, dice)).saturating_sub(wide(SECOND, dice));
    let to_us = from_us + 50 * MS + wide(4 * SECOND, dice);
    let node = dice.place(attack.nodes);
    match dice.below(7) {
        0..=3 => {
            let nodes = some_nodes(attack.nodes, dice);
            Fault::Cut { from_us, to_us, nodes, one_way: dice.below(4) == 0 }
        }
        4 => Fault::Crash { from_us, to_us, node },
        5 => Fault::Pause { from_us, to_us, node },
        _ => Fault::Restart { from_us, to_us, node },
    }
}

/// `attack` with one to three small changes.
pub(super) fn vary(attack: &Attack, aim: &Aim, dice: &mut Dice) -> Attack {
    let mut attack = attack.clone();
    for _ in 0..dice.between(1, 3) {
        match dice.below(16) {
            0 => vary_numbers(&mut attack, aim, dice),
            1 => vary_lines(&mut attack, dice),
            2 if aim.family == Family::Disturbed => vary_faults(&mut attack, dice),
            3 if aim.family == Family::Disturbed => vary_faults(&mut attack, dice),
            4 => shift_from(&mut attack, dice),
            5 => vary_moves(&mut attack, dice),
            _ => vary_move(&mut attack, dice),
        }
    }
    in_bounds(&mut attack);
    attack
}

fn vary_numbers(attack: &mut Attack, aim: &Aim, dice: &mut Dice) {
    match dice.below(8) {
        0 => attack.seed = dice.below(1 << 20),
        1 => attack.burst = a_burst(aim.scale, dice),
        2 => attack.window_ms = dice.one_of(&WINDOWS_MS),
        3 if attack.wait_ms > 0 => attack.wait_ms = dice.one_of(&[5, 20]),
        4 => attack.delay_us = dice.one_of(&DELAYS_US),
        5 => attack.jitter_us = dice.one_of(&[0, 500, 5_000]),
        6 => attack.loss_ppm = dice.one_of(&[0, 20_000]),
        _ => attack.burst = aim.scale.fit(scaled(attack.burst, dice)),
    }
}

fn vary_lines(attack: &mut Attack, dice: &mut Dice) {
    if !attack.lines.is_empty() && dice.below(2) == 0 {
        let place = dice.place(attack.lines.len());
        if dice.below(3) == 0 {
            attack.lines.remove(place);
        } else {
            attack.lines[place].delay_us = scaled(attack.lines[place].delay_us, dice);
        }
    } else if attack.lines.len() < LINES_MAX {
        let (from, to) = (some_nodes(attack.nodes, dice), some_nodes(attack.nodes, dice));
        attack.lines.push(Line { from, to, delay_us: dice.one_of(&SLOW_US) });
    }
}

fn vary_faults(attack: &mut Attack, dice: &mut Dice) {
    let place = dice.place(attack.faults.len());
    match dice.below(4) {
        0 => {
            let fault = a_fault(attack, dice);
            attack.faults[place] = fault;
        }
        1 if attack.faults.len() < FAULTS_MAX => {
            let fault = a_fault(attack, dice);
            attack.faults.push(fault);
        }
        2 if attack.faults.len() > 1 => {
            attack.faults.remove(place);
        }
        _ => {
            let (from_us, to_us) = attack.faults[place].times_mut();
            let time_us = if dice.below(2) == 0 { from_us } else { to_us };
            *time_us = moved(*time_us, SECOND, dice);
        }
    }
}

/// Everything from a move on comes earlier or later.
fn shift_from(attack: &mut Attack, dice: &mut Dice) {
    let from_us = attack.moves[dice.place(attack.moves.len())].at_us;
    let by_us = wide(SECOND / 4, dice);
    let is_later = dice.below(2) == 0;
    let shifted = |at_us: u64| {
        if at_us < from_us {
            at_us
        } else if is_later {
            at_us + by_us
        } else {
            at_us.saturating_sub(by_us)
        }
    };
    for step in &mut attack.moves {
        step.at_us = shifted(step.at_us);
    }
    for fault in &mut attack.faults {
        let (fault_us, to_us) = fault.times_mut();
        (*fault_us, *to_us) = (shifted(*fault_us), shifted(*to_us));
    }
}

/// A move more or less.
fn vary_moves(attack: &mut Attack, dice: &mut Dice) {
    let place = dice.place(attack.moves.len());
    let is_room = attack.moves.len() < MOVES_MAX;
    match dice.below(3) {
        0 if attack.moves.len() > 1 => {
            attack.moves.remove(place);
        }
        1 if is_room => {
            let at_us = attack.moves[place].at_us + a_gap(attack, dice);
            let again = Move { at_us, ..attack.moves[place] };
            attack.moves.push(again);
        }
        _ if is_room => {
            let at_us = attack.moves[place].at_us + a_gap(attack, dice);
            let step = a_move(attack, at_us, dice);
            attack.moves.push(step);
        }
        _ => {}
    }
}

fn vary_move(attack: &mut Attack, dice: &mut Dice) {
    let place = dice.place(attack.moves.len());
    let (nodes, burst) = (attack.nodes, attack.burst);
    let step = &mut attack.moves[place];
    match dice.below(9) {
        0 | 1 => step.at_us = moved(step.at_us, SECOND / 4, dice),
        2 => step.nodes = some_nodes(nodes, dice),
        3 => step.nodes ^= 1 << dice.place(nodes),
        4 => step.count = scaled(step.count, dice),
        5 => step.cost = scaled(step.cost, dice),
        6 => step.within_us = moved(step.within_us, SECOND / 4, dice),
        7 => step.step_us = dice.one_of(&[0, 60, -60, 400, -400, 2_000, -2_000, 10_000]),
        _ => {
            // The same units in other requests.
            let units = (step.count * step.cost).max(1);
            step.cost = (burst * dice.between(0, 60) / 100).max(1);
            step.count = units.div_ceil(step.cost);
        }
    }
}

/// `number` made greater or smaller: by a little as often as by a half.
fn scaled(number: u64, dice: &mut Dice) -> u64 {
    let by = 1 + number * dice.one_of(&[0, 2, 10, 30, 50, 100]) / 100;
    if dice.below(2) == 0 { number + by } else { number.saturating_sub(by).max(1) }
}

/// `time_us` moved by up to `most_us`.
fn moved(time_us: u64, most_us: u64, dice: &mut Dice) -> u64 {
    let by_us = wide(most_us, dice);
    if dice.below(2) == 0 { time_us + by_us } else { time_us.saturating_sub(by_us) }
}

/// What an attack may be made of, whatever chance has made of it.
fn in_bounds(attack: &mut Attack) {
    let all = everyone(attack.nodes);
    for line in &mut attack.lines {
        line.delay_us = line.delay_us.clamp(1, SLOW_US[SLOW_US.len() - 1]);
    }
    let burst = attack.burst;
    for step in &mut attack.moves {
        step.at_us = step.at_us.min(DRAWN_US_MAX);
        step.within_us = step.within_us.min(3 * SECOND);
        step.cost = step.cost.clamp(1, if step.key == 0 { burst } else { 1 });
        step.count = step.count.clamp(1, 3_000.min(8 * burst + 1_000));
        step.nodes = if step.nodes & all == 0 { 1 } else { step.nodes & all };
    }
    attack.moves.sort_by_key(|step| step.at_us);
    for fault in &mut attack.faults {
        if let Fault::Cut { nodes, .. } = fault
            && (*nodes == all || *nodes == 0)
        {
            *nodes = 1;
        }
        let (from_us, to_us) = fault.times_mut();
        *from_us = (*from_us).min(DRAWN_US_MAX);
        *to_us = (*to_us).clamp(*from_us + 10 * MS, END_US_MAX);
    }
    apart(&mut attack.faults);
}

/// All faults that stop a node stop the same one, and do not overlap: the later is put off. Where every
/// node may be stopped in turn before the last is back, all counts can be made to be forgotten, which
/// needs no search.
fn apart(faults: &mut [Fault]) {
    faults.sort_by_key(Fault::from_us);
    let (mut free_us, mut stopped) = (0, None);
    for fault in faults {
        match fault {
            Fault::Cut { .. } => continue,
            Fault::Crash { node, .. } | Fault::Pause { node, .. } | Fault::Restart { node, .. } => {
                *node = *stopped.get_or_insert(*node);
            }
        }
        let (from_us, to_us) = fault.times_mut();
        let length_us = *to_us - *from_us;
        *from_us = (*from_us).max(free_us).min(END_US_MAX - length_us.min(END_US_MAX));
        *to_us = *from_us + length_us;
        free_us = *to_us + 10 * MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_and_varied_can_be_said_in_text() {
        for seed in 0..300 {
            let mut dice = Dice::new(seed);
            let nodes = dice.one_of(&[2, 3, 5, 50]);
            let aim = Aim {
                nodes,
                accuracy: dice.one_of(&[Accuracy::Balanced, Accuracy::Fast]),
                family: dice.one_of(&Family::ALL),
                scale: dice.one_of(&Scale::ALL),
            };
            let mut attack = draw(&aim, &mut dice);
            for _ in 0..50 {
                let text = attack.to_string();
                assert_eq!(Attack::parse(&text).as_ref(), Ok(&attack), "{text}");
                assert_eq!(aim.family == Family::Disturbed, !attack.faults.is_empty(), "{text}");
                assert_eq!(aim.scale, Scale::of(attack.burst), "{text}");
                attack = vary(&attack, &aim, &mut dice);
            }
        }
    }

    #[test]
    fn chance_is_wide_and_bounded() {
        let mut dice = Dice::new(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| wide(1_000_000, &mut dice)).collect();
        assert!(drawn.iter().all(|n| *n <= 1_000_000));
        assert!(drawn.iter().filter(|n| **n < 1_000).count() > 200);
        assert!(drawn.iter().filter(|n| **n > 100_000).count() > 100);
    }
}
