//! Loopback addresses for pods: every address of 127.0.0.0/8 is local on Linux, so
//! a pod can have its own without any privilege.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// 127.64.0.0/10.
const FIRST: u32 = 0x7f40_0000;
const SIZE: u32 = 1 << 22;

/// Hands out addresses from 127.64.0.0/10, each to one live pod. It goes round the
/// whole range before an address comes again, so that a client with a stale address
/// meets a closed port and not another's pod.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    next: u32,
    used: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    /// Starts at the offset `next`, as [`Self::position`] gave it in an earlier life.
    pub(crate) fn starting_at(next: u32) -> Self {
        Self {
            next: next % SIZE,
            used: BTreeSet::new(),
        }
    }

    /// Where the next search starts.
    pub(crate) fn position(&self) -> u32 {
        self.next
    }

    /// Takes `address` again for a pod that had it; false if it is taken or foreign.
    pub(crate) fn claim(&mut self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(FIRST);
        offset < SIZE && self.used.insert(address)
    }

    /// A fresh address; `None` when all four million are taken.
    pub(crate) fn allocate(&mut self) -> Option<Ipv4Addr> {
        for _ in 0..SIZE {
            let address = Ipv4Addr::from(FIRST | self.next);
            self.next = self.next.wrapping_add(1) % SIZE;
            let [.., last] = address.octets();
            // Not an address that looks like a network's or its broadcast.
            if last != 0 && last != 255 && self.used.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Gives an address back.
    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_addresses_come_last() {
        let mut addresses = Addresses::default();
        let first = addresses.allocate().unwrap();
        assert_eq!(first, Ipv4Addr::new(127, 64, 0, 1));
        addresses.release(first);
        let more: Vec<_> = (0..600).map(|_| addresses.allocate().unwrap()).collect();
        assert!(!more.contains(&first));
        assert!(
            more.iter()
                .all(|ip| ip.is_loopback() && !matches!(ip.octets()[3], 0 | 255))
        );
        assert_eq!(more.iter().collect::<BTreeSet<_>>().len(), 600);
    }

    #[test]
    fn wraps_and_skips_what_is_taken() {
        let mut addresses = Addresses::starting_at(SIZE - 2);
        assert!(addresses.claim(Ipv4Addr::new(127, 64, 0, 1)));
        assert!(!addresses.claim(Ipv4Addr::new(127, 64, 0, 1)));
        assert!(!addresses.claim(Ipv4Addr::new(127, 0, 0, 1)));
        assert_eq!(
            addresses.allocate(),
            Some(Ipv4Addr::new(127, 127, 255, 254))
        );
        assert_eq!(addresses.allocate(), Some(Ipv4Addr::new(127, 64, 0, 2)));
        assert_eq!(addresses.position(), 3);
    }
}
