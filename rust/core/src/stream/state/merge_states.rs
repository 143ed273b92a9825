//! [`merge_states`]: joins the states of the ranks of a run, which must have stopped after the same step.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::run_identity;
use super::stream_state::{StreamState, refused};
use crate::error::Result;

/// The state of a run, merged from the states of its ranks after the same step.
///
/// # Errors
///
/// [`Error::Option`](crate::error::Error::Option) about `state` if the states are of different runs or steps, or a lane is in none of
/// them.
pub fn merge_states(states: &[StreamState]) -> Result<StreamState> {
    let Some((first, rest)) = states.split_first() else {
        return Err(refused("must be at least one"));
    };
    let mut merged = first.clone();
    // Ranks that have taken no table, or none since they resumed, have the state of all.
    if merged.rank.is_none()
        && merged.states.len() == merged.lanes
        && rest.iter().all(|state| state.to_json() == first.to_json())
    {
        return Ok(merged);
    }
    let mut ranks = BTreeSet::from([first.rank]);
    for state in rest {
        let identities = merged.identity.as_ref().zip(state.identity.as_ref());
        let differences = identities.and_then(|(a, b)| run_identity::differences(a, b, None));
        if differences.is_some() || state.lanes != merged.lanes {
            let differences = differences.unwrap_or_else(|| "the number of lanes".to_owned());
            return Err(refused(format!("is of several runs; what differs: {differences}")));
        }
        if (state.rows, state.step) != (merged.rows, merged.step) {
            let reason = format!(
                "is of several steps, {} and {}; save the states of all ranks after the same step",
                merged.step, state.step
            );
            return Err(refused(reason));
        }
        let again = |(lane, text)| merged.states.get(lane).is_some_and(|known| known != text);
        if !ranks.insert(state.rank) || state.states.iter().any(again) {
            return Err(refused("is of the same rank twice"));
        }
        merged.counts.add(&state.counts);
        merged.carried.add(&state.carried);
        // The rank that is furthest behind decides. One without a place needs the source from its beginning.
        merged.saved.retain(|name, _| state.saved.contains_key(name));
        for (name, saved) in &mut merged.saved {
            let other = &state.saved[name];
            if (other.epoch, other.round) < (saved.epoch, saved.round) {
                *saved = other.clone();
            }
        }
        merged.states.extend(state.states.iter().map(|(lane, text)| (*lane, Arc::clone(text))));
    }
    let missing: Vec<usize> =
        (0..merged.lanes).filter(|lane| !merged.states.contains_key(lane)).collect();
    if !missing.is_empty() {
        return Err(merged.missing(&missing));
    }
    // Of ranks that share lanes, some may have them all. The counts are those of all ranks.
    if let Some(rank) = (0..merged.world_size).find(|rank| !ranks.contains(&Some(*rank)))
        && merged.rank.is_some()
    {
        return Err(refused(format!(
            "has no rank {rank}; join the states of all {} ranks",
            merged.world_size
        )));
    }
    Ok(StreamState { rank: None, ..merged })
}
