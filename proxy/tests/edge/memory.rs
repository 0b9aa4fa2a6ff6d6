//! What the proxy takes of this machine's memory.

use crate::proxy::Stage;

/// Resident memory of the proxy's process, in bytes.
pub(crate) fn resident(stage: &Stage) -> u64 {
    let status = format!("/proc/{}/status", stage.child.id().unwrap());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() * 1024
}
