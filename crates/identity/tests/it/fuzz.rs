//! Mutated tokens, cookies, headers and key sets: nothing panics, and nothing is accepted that was
//! not signed.
//!
//! A few hundred inputs each, always the same ones, as part of the tests; with
//! `NOGOO9_FUZZ_SECONDS` (`make fuzz`) as many as fit into that time, from a new seed. A failure is
//! shrunk and names the seed that finds it again, as `NOGOO9_FUZZ_SEED`.

mod cookies;
mod documents;
mod headers;
mod mutation;
mod tokens;
mod world;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Inputs a seed.
const BATCH: u32 = 64;
/// Seeds without a time to fill.
const BATCHES: u64 = 6;

/// Holds `property` to inputs of `strategy`.
fn fuzz<S: Strategy>(name: &str, strategy: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let seconds = number("NOGOO9_FUZZ_SECONDS");
    let first = number("NOGOO9_FUZZ_SEED").unwrap_or_else(|| match seconds {
        Some(_) => since_epoch(),
        None => 0,
    });
    let start = Instant::now();
    let enough = |batches: u64| match seconds {
        Some(seconds) => start.elapsed() >= Duration::from_secs(seconds),
        None => batches >= BATCHES,
    };
    let mut batches = 0;
    while !enough(batches) {
        let seed = first.wrapping_add(batches);
        if let Err(failure) = runner(seed).run(strategy, &property) {
            panic!("{name}: {failure}\nagain with NOGOO9_FUZZ_SEED={seed}");
        }
        batches += 1;
    }
    told(name, first, batches);
}

fn runner(seed: u64) -> TestRunner {
    let config = Config {
        cases: BATCH,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    for (byte, of_seed) in bytes.iter_mut().zip(seed.to_le_bytes()) {
        *byte = of_seed;
    }
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

fn since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock past 1970").as_secs() << 16
}

#[allow(clippy::print_stdout, reason = "what `make fuzz` did")]
fn told(name: &str, first: u64, batches: u64) {
    let inputs = batches * u64::from(BATCH);
    println!("{name}: {inputs} inputs from seed {first}");
}
