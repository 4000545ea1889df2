//! Limits connections: in total, so that descriptors are left, and for each peer. Closes an idle connection when
//! another one needs its place.
//!
//! `serve` asks for each connection; a request under way is never hung up on, so those who have their place
//! by silence lose it first.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Connections where nothing else says how many.
const MOST: usize = 4_096;
/// Descriptors for all else: captures that are analysed, the tables, the report, the log.
const RESERVE: u64 = 96;
/// A connection's own and that of the file its body goes to.
const DESCRIPTORS_OF_ONE: u64 = 2;
/// Descriptors that this process asks for, where it may.
const WANTED_DESCRIPTORS: u64 = MOST as u64 * DESCRIPTORS_OF_ONE + RESERVE;

/// Limits on open connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all.
    pub(crate) all: usize,
    /// Of one peer.
    pub(crate) of_peer: usize,
    /// Of one of this machine's addresses: a proxy here speaks for everybody.
    pub(crate) of_this_machine: usize,
}

impl Limits {
    /// Caps the wanted limits (`None` for the defaults) by the descriptors that this process may open.
    #[must_use]
    pub fn resolve(all: Option<usize>, of_peer: Option<usize>) -> Self {
        let descriptors = raise_descriptors().saturating_sub(RESERVE) / DESCRIPTORS_OF_ONE;
        let possible = usize::try_from(descriptors).unwrap_or(MOST).max(4);
        let all = all.unwrap_or(MOST).clamp(1, possible);
        Self {
            all,
            of_peer: of_peer.unwrap_or(all / 4).clamp(1, all),
            of_this_machine: of_peer.unwrap_or(all).clamp(1, all),
        }
    }
}

/// Takes as many descriptors as this process may have and can use. Returns how many it has.
fn raise_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to an rlimit of ours.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 256;
    }
    let wanted = WANTED_DESCRIPTORS.min(limit.rlim_max);
    if wanted > limit.rlim_cur {
        let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max };
        // SAFETY: the kernel reads an rlimit of ours.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return wanted;
        }
    }
    limit.rlim_cur
}

/// The connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    open: Mutex<Open>,
    /// Hung up on because their place was wanted; and turned away because none could be had.
    pub(crate) hung_up: AtomicU64,
    pub(crate) turned_away: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, One>,
    by_peer: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct One {
    peer: IpAddr,
    /// Since when no request is under way.
    idle: Option<Instant>,
    hang_up: Arc<Notify>,
}

/// A connection's place; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    of: Arc<Connections>,
    number: u64,
    hang_up: Arc<Notify>,
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let (hung_up, turned_away) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limits, open: Mutex::default(), hung_up, turned_away })
    }

    /// A place for a connection of this peer. `None`: there is none, not even one that somebody holds in
    /// silence.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Connection> {
        let peer = network_of(peer);
        let most =
            if peer.is_loopback() { self.limits.of_this_machine } else { self.limits.of_peer };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_many = open.by_peer.get(&peer).is_some_and(|&count| count >= most);
        let is_full = open.by_number.len() >= self.limits.all;
        if (is_too_many && !open.hang_up_idle(Some(peer)))
            || (!is_too_many && is_full && !open.hang_up_idle(None))
        {
            // ORDERING: Relaxed, here and below; counts.
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.hung_up.fetch_add(u64::from(is_too_many || is_full), Ordering::Relaxed);
        let (number, hang_up) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let one = One { peer, idle: Some(Instant::now()), hang_up: Arc::clone(&hang_up) };
        open.by_number.insert(number, one);
        *open.by_peer.entry(peer).or_default() += 1;
        Some(Connection { of: Arc::clone(self), number, hang_up })
    }
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<One> {
        let one = self.by_number.remove(&number)?;
        if let Some(count) = self.by_peer.get_mut(&one.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&one.peer);
            }
        }
        Some(one)
    }

    /// Hangs up on who has said nothing for longest, of a peer or of all.
    fn hang_up_idle(&mut self, peer: Option<IpAddr>) -> bool {
        let idle = self.by_number.iter().filter(|(_, one)| peer.is_none_or(|of| of == one.peer));
        let idle = idle.filter_map(|(&number, one)| Some((one.idle?, number)));
        let Some((_, number)) = idle.min() else { return false };
        if let Some(one) = self.remove(number) {
            one.hang_up.notify_one();
        }
        true
    }
}

impl Connection {
    /// Comes when it is to be hung up on.
    pub(crate) fn hang_up(&self) -> Arc<Notify> {
        Arc::clone(&self.hang_up)
    }

    /// A request begins, or has been answered.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        let mut open = self.of.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = open.by_number.get_mut(&self.number) {
            one.idle = (!is_busy).then(Instant::now);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.of.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(self.number);
    }
}

/// Returns the network that a peer is counted by: a customer of a provider has 2^64 addresses.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_loses_its_place_and_who_is_served_keeps_it() {
        let limits = Limits { all: 3, of_peer: 2, of_this_machine: 3 };
        let connections = Connections::new(limits);
        let peer = |last| IpAddr::from([10, 0, 0, last]);
        let admit = |last| connections.admit(peer(last));
        let (silent, busy) = (admit(1).unwrap(), admit(1).unwrap());
        busy.set_busy(true);
        // A third of the same peer: the silent one goes.
        let third = admit(1).unwrap();
        third.set_busy(true);
        let is_hung_up =
            |of: &Connection| !connections.open.lock().unwrap().by_number.contains_key(&of.number);
        assert!(is_hung_up(&silent) && !is_hung_up(&busy));
        assert!(admit(1).is_none(), "both of it are served");
        let other = admit(2).unwrap();
        let fourth = admit(3).unwrap();
        assert!(is_hung_up(&other), "three in all");
        fourth.set_busy(true);
        assert!(admit(4).is_none());
        fourth.set_busy(false);
        assert!(admit(4).is_some());
        drop((silent, other, third));
        let count = connections.open.lock().unwrap().by_peer.get(&peer(1)).copied();
        assert_eq!(count, Some(1), "what was hung up on is not counted down twice");
        // Addresses of one customer are one peer.
        let of_v6 = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of_v6("2001:db8:1:2:3::4"), of_v6("2001:db8:1:2:ffff::"));
        assert_eq!(of_v6("::ffff:10.0.0.1"), peer(1));
    }
}
