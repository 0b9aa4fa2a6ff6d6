//! What the proxy takes of this machine's memory: its own, and the system's for its connections.

use crate::proxy::Stage;
use std::net::SocketAddr;

/// Resident memory of the proxy's process, in bytes.
pub(crate) fn resident(stage: &Stage) -> u64 {
    let status = format!("/proc/{}/status", stage.child.id().unwrap());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() * 1024
}

/// Bytes that wait in the system's buffers of the proxy's connections: of those to its clients, and of
/// those to `pod`.
pub(crate) fn waiting(stage: &Stage, pod: SocketAddr) -> u64 {
    let hex = |port: u16| format!("{port:04X}");
    let (ours, pods) = (hex(stage.address.port()), hex(pod.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let sockets = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, remote) = (columns.next()?, columns.next()?);
        let open = columns.next()? == "01";
        let (sent, came) = columns.next()?.split_once(':')?;
        let proxys = local.ends_with(&ours) || remote.ends_with(&pods);
        let bytes = |hex| u64::from_str_radix(hex, 16).unwrap();
        (open && proxys).then(|| bytes(sent) + bytes(came))
    });
    sockets.sum()
}
