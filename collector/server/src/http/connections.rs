//! Limits connections: in total, so that descriptors are left, and for each client address. Closes a connection when
//! another one needs its place.
//!
//! `serve` asks for each connection. The first to lose its place is a connection whose last request was answered, or was
//! refused because it has no token; then the oldest that has not sent a request. If there is none, the app or person with
//! most places loses that of its oldest request, if it has more than its share: an equal one of all who have some, and one
//! more. Other requests keep their place. At the limit of an address, only its connections count.

use axum::http::HeaderMap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Default number of connections.
const MOST: usize = 4_096;
/// Descriptors for all else: captures that are analyzed, the tables, the report, the log.
const RESERVE: u64 = 96;
/// The connection's descriptor and that of its body's file.
const DESCRIPTORS_OF_ONE: u64 = 2;
/// The header in which a proxy names its client.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Descriptors that this process requests, if it may.
const WANTED_DESCRIPTORS: u64 = MOST as u64 * DESCRIPTORS_OF_ONE + RESERVE;

/// Limits on open connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// In total.
    pub(crate) all: usize,
    /// Maximum from one client address.
    pub(crate) of_client: usize,
    /// Proxies, which name the client of each request in `X-Forwarded-For`.
    pub(crate) proxies: Vec<IpAddr>,
}

impl Limits {
    /// Caps the wanted limits (`None` for the defaults) by the descriptors that this process may open.
    #[must_use]
    pub fn resolve(all: Option<usize>, of_client: Option<usize>, proxies: &[IpAddr]) -> Self {
        let descriptors = raise_descriptors().saturating_sub(RESERVE) / DESCRIPTORS_OF_ONE;
        let possible = usize::try_from(descriptors).unwrap_or(MOST).max(4);
        let all = all.unwrap_or(MOST).clamp(1, possible);
        let of_client = of_client.unwrap_or(all / 4).clamp(1, all);
        Self { all, of_client, proxies: proxies.iter().map(IpAddr::to_canonical).collect() }
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(&address.to_canonical())
    }

    /// Returns the client that a proxy names: the last address of the list that is not a proxy's. Earlier addresses are the
    /// client's own claims.
    fn client_of(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lists = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let addresses = lists.flat_map(|list| list.split(','));
        let addresses: Vec<IpAddr> =
            addresses.map_while(|address| address.trim().parse().ok()).collect();
        addresses.into_iter().rev().find(|&address| !self.is_proxy(address))
    }
}

/// Takes as many descriptors as this process may have and can use. Returns how many it has.
fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let (current, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let wanted = WANTED_DESCRIPTORS.min(most);
    let raised = Rlimit { current: Some(wanted), ..limit };
    let is_raised = wanted > current && setrlimit(Resource::Nofile, raised).is_ok();
    if is_raised { wanted } else { current }
}

/// The connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    open: Mutex<Open>,
    /// Connections closed because their place was needed, and refused because there was none.
    pub(crate) hung_up: AtomicU64,
    pub(crate) turned_away: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, One>,
    by_client: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct One {
    /// The address for counting: the peer's, or that of the client behind a proxy.
    client: IpAddr,
    /// `None` while a request keeps its place.
    idle: Option<Idle>,
    /// The app of the request's token.
    app: Option<String>,
    hang_up: Arc<Notify>,
}

/// The reason for which a connection may be closed, and since when. The smallest is closed first: the first request of a new
/// connection may have arrived and not been read yet, and nothing is expected from an answered one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Idle {
    Answered(Instant),
    New(Instant),
}

/// A connection's place; released when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    peer: IpAddr,
    hang_up: Arc<Notify>,
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let (hung_up, turned_away) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limits, open: Mutex::default(), hung_up, turned_away })
    }

    /// Returns the addresses of the proxies.
    pub(crate) fn proxies(&self) -> &[IpAddr] {
        &self.limits.proxies
    }

    /// Admits a connection of this peer. `None`: every place is taken by a request that keeps it.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Connection> {
        let client = network_of(peer);
        let most = if self.limits.is_proxy(peer) { self.limits.all } else { self.limits.of_client };
        let mut open = self.open();
        let is_too_many = open.by_client.get(&client).is_some_and(|&count| count >= most);
        let is_full = open.by_number.len() >= self.limits.all;
        let (whose, places) =
            if is_too_many { (Some(client), most) } else { (None, self.limits.all) };
        if (is_too_many || is_full)
            && !open.hang_up_idle(whose)
            && !open.hang_up_largest_app(whose, places)
        {
            // ORDERING: Relaxed, here and below; counts.
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.hung_up.fetch_add(u64::from(is_too_many || is_full), Ordering::Relaxed);
        let (number, hang_up) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let idle = Some(Idle::New(Instant::now()));
        let one = One { client, idle, app: None, hang_up: Arc::clone(&hang_up) };
        open.by_number.insert(number, one);
        open.count(client);
        Some(Connection { connections: Arc::clone(self), number, peer, hang_up })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn count(&mut self, client: IpAddr) {
        *self.by_client.entry(client).or_default() += 1;
    }

    fn count_down(&mut self, client: IpAddr) {
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(one) = self.by_number.remove(&number) {
            self.count_down(one.client);
        }
    }

    fn hang_up(&mut self, number: u64) {
        if let Some(one) = self.by_number.get(&number) {
            one.hang_up.notify_one();
        }
        self.remove(number);
    }

    /// Closes the first idle connection to evict, of a client or of all. Returns false if there is none.
    fn hang_up_idle(&mut self, client: Option<IpAddr>) -> bool {
        let of_client = self
            .by_number
            .iter()
            .filter(|(_, one)| client.is_none_or(|client| client == one.client));
        let idle = of_client.filter_map(|(&number, one)| Some((one.idle?, number))).min();
        idle.map(|(_, number)| self.hang_up(number)).is_some()
    }

    /// Closes the oldest request of the app that has most of these places, which are a client's or all. Returns false if none
    /// has more than its share. Anyone can extract a token from an app, but cannot lock out other apps with it.
    fn hang_up_largest_app(&mut self, client: Option<IpAddr>, places: usize) -> bool {
        let mut by_app: HashMap<&str, (usize, Reverse<u64>)> = HashMap::new();
        for (&number, one) in &self.by_number {
            let is_counted = client.is_none_or(|client| client == one.client);
            let Some(app) = one.app.as_ref().filter(|_| is_counted) else { continue };
            let (count, oldest) = by_app.entry(app).or_insert((0, Reverse(number)));
            *count += 1;
            *oldest = Reverse(number).max(*oldest);
        }
        let fair = places / (by_app.len() + 1);
        let largest = by_app.into_values().max().filter(|&(count, _)| count > fair);
        largest.map(|(_, Reverse(oldest))| self.hang_up(oldest)).is_some()
    }
}

impl Connection {
    /// Returns the signal to close this connection.
    pub(crate) fn hang_up(&self) -> Arc<Notify> {
        Arc::clone(&self.hang_up)
    }

    /// Registers the begin of a request. Returns false if it came through a proxy, from a client that has too many.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> bool {
        let limits = &self.connections.limits;
        let proxied = limits.is_proxy(self.peer).then(|| limits.client_of(headers)).flatten();
        let proxied = proxied.map(network_of);
        let mut open = self.connections.open();
        if let Some(client) = proxied
            && open.by_client.get(&client).is_some_and(|&count| count >= limits.of_client)
            && !open.hang_up_largest_app(Some(client), limits.of_client)
        {
            return false;
        }
        self.count_by(&mut open, proxied.unwrap_or_else(|| network_of(self.peer)));
        if let Some(one) = open.by_number.get_mut(&self.number) {
            one.idle = None;
        }
        true
    }

    /// A request has been answered.
    pub(crate) fn end(&self) {
        let mut open = self.connections.open();
        self.count_by(&mut open, network_of(self.peer));
        if let Some(one) = open.by_number.get_mut(&self.number) {
            one.app = None;
            one.idle = Some(Idle::Answered(Instant::now()));
        }
    }

    /// The request has the token of this app.
    pub(crate) fn set_app(&self, app: &str) {
        if let Some(one) = self.connections.open().by_number.get_mut(&self.number) {
            one.app = Some(app.to_owned());
        }
    }

    /// True if the peer is a proxy.
    pub(crate) fn is_through_proxy(&self) -> bool {
        self.connections.limits.is_proxy(self.peer)
    }

    /// True if nobody can read the traffic: the peer is on this machine, or is a proxy, which is responsible for encryption.
    pub(crate) fn is_private(&self) -> bool {
        self.peer.to_canonical().is_loopback() || self.is_through_proxy()
    }

    /// Returns the network of the request's origin.
    pub(crate) fn client(&self) -> IpAddr {
        let open = self.connections.open();
        open.by_number.get(&self.number).map_or_else(|| network_of(self.peer), |one| one.client)
    }

    /// Returns the app of the request's token, and the client's address, for a log line.
    pub(crate) fn asks(&self) -> (Option<String>, String) {
        let open = self.connections.open();
        let one = open.by_number.get(&self.number);
        let app = one.and_then(|one| one.app.clone());
        (app, one.map_or(self.peer, |one| one.client).to_string())
    }

    /// The request is refused: its place is for another, if one is needed before its body has been read.
    pub(crate) fn give_way(&self) {
        if let Some(one) = self.connections.open().by_number.get_mut(&self.number) {
            one.idle = Some(Idle::Answered(Instant::now()));
        }
    }

    fn count_by(&self, open: &mut Open, client: IpAddr) {
        let Some(one) = open.by_number.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut one.client, client);
        open.count_down(before);
        open.count(client);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open().remove(self.number);
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

    fn limited(all: usize, of_client: usize, proxies: &[IpAddr]) -> Arc<Connections> {
        Connections::new(Limits { all, of_client, proxies: proxies.to_vec() })
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn through(addresses: &str) -> HeaderMap {
        HeaderMap::from_iter([(FORWARDED_FOR.parse().unwrap(), addresses.parse().unwrap())])
    }

    fn is_hung_up(connection: &Connection) -> bool {
        !connection.connections.open().by_number.contains_key(&connection.number)
    }

    #[test]
    fn an_idle_connection_loses_its_place_and_a_busy_one_keeps_it() {
        let connections = limited(3, 2, &[]);
        let admit = |last| connections.admit(peer(last));
        let none = HeaderMap::new();
        let (silent, busy) = (admit(1).unwrap(), admit(1).unwrap());
        assert!(busy.begin(&none));
        // A third of the same peer: the silent one goes.
        let third = admit(1).unwrap();
        assert!(third.begin(&none));
        assert!(is_hung_up(&silent) && !is_hung_up(&busy));
        assert!(admit(1).is_none(), "both of it are served");
        let other = admit(2).unwrap();
        let fourth = admit(3).unwrap();
        assert!(is_hung_up(&other), "three in all");
        assert!(fourth.begin(&none));
        assert!(admit(4).is_none());
        fourth.end();
        assert!(admit(4).is_some());
        drop((silent, other, third));
        let count = connections.open().by_client.get(&peer(1)).copied();
        assert_eq!(count, Some(1), "a connection that was closed is counted down once");
        // Addresses of one customer are one client.
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2:ffff::"));
        assert_eq!(network("::ffff:10.0.0.1"), peer(1));
    }

    #[test]
    fn an_answered_connection_gives_way_before_an_older_one_whose_request_is_on_its_way() {
        let connections = limited(2, 2, &[]);
        let (new, answered) =
            (connections.admit(peer(1)).unwrap(), connections.admit(peer(1)).unwrap());
        assert!(answered.begin(&HeaderMap::new()));
        answered.end();
        let next = connections.admit(peer(1)).unwrap();
        assert!(!is_hung_up(&new) && is_hung_up(&answered) && !is_hung_up(&next));
    }

    #[test]
    fn a_request_without_a_token_gives_way_and_this_machine_is_not_exempt() {
        let connections = limited(8, 2, &[]);
        let here = IpAddr::from([127, 0, 0, 1]);
        let stranger = connections.admit(here).unwrap();
        let known = connections.admit(here).unwrap();
        assert!(stranger.begin(&HeaderMap::new()) && known.begin(&HeaderMap::new()));
        assert!(connections.admit(here).is_none());
        stranger.give_way();
        assert!(connections.admit(here).is_some());
        assert!(is_hung_up(&stranger) && !is_hung_up(&known));
    }

    #[test]
    fn an_app_with_more_than_its_share_of_the_places_loses_its_oldest_request() {
        // Of all places, and of those that one address has, such as that of a carrier.
        for (all, of_client, next_peer) in [(6, 6, peer(2)), (9, 6, peer(1))] {
            let connections = limited(all, of_client, &[]);
            let begin = |peer, app| {
                let connection = connections.admit(peer)?;
                assert!(connection.begin(&HeaderMap::new()));
                connection.set_app(app);
                Some(connection)
            };
            let apps = ["a", "b", "a", "b", "a", "c"];
            let requests = apps.map(|app| begin(peer(1), app).unwrap());
            let next = [0; 3].map(|_| begin(next_peer, "d").unwrap());
            let is_hung_up: Vec<bool> = requests.iter().chain(&next).map(is_hung_up).collect();
            // The two oldest ones of "a" and the oldest of "b": each has more than a fifth then.
            assert_eq!(is_hung_up, [true, true, true, false, false, false, false, false, false]);
        }
        // Those of other addresses keep theirs.
        let connections = limited(9, 1, &[]);
        let begin = |last| {
            let connection = connections.admit(peer(last)).unwrap();
            assert!(connection.begin(&HeaderMap::new()));
            connection.set_app("a");
            connection
        };
        let (other, first, second) = (begin(2), begin(1), begin(1));
        assert!(!is_hung_up(&other) && is_hung_up(&first) && !is_hung_up(&second));
    }

    #[test]
    fn behind_a_proxy_requests_are_counted_by_the_client_that_it_names() {
        let proxy = peer(9);
        let connections = limited(8, 1, &[proxy, peer(8)]);
        let admit = || connections.admit(proxy).unwrap();
        let (first, second, third) = (admit(), admit(), admit());
        assert!(first.begin(&through("192.0.2.1")));
        assert!(!second.begin(&through("192.0.2.1")));
        // A client may send a list of its own; the proxy appends the address that it sees.
        assert!(!second.begin(&through("198.51.100.7, 192.0.2.1")));
        assert!(!second.begin(&through("198.51.100.7, 192.0.2.1, 10.0.0.8")));
        assert!(third.begin(&through("192.0.2.2")));
        first.end();
        assert!(second.begin(&through("192.0.2.1")));
        // The header of anybody else says nothing.
        let direct = connections.admit(peer(1)).unwrap();
        assert!(direct.begin(&through("192.0.2.1")));
        // An app's own request makes way for the next one of its client.
        second.set_app("a");
        assert!(first.begin(&through("192.0.2.1")) && is_hung_up(&second));
        drop((first, second, third, direct));
        assert!(connections.open().by_client.is_empty());
    }

    #[test]
    fn each_connection_has_two_descriptors_and_the_store_ninety_six() {
        let most = Limits::resolve(Some(1_000_000), None, &[]);
        let descriptors = getrlimit(Resource::Nofile).current.unwrap();
        let all = most.all as u64;
        assert!((2 * all + 96..2 * all + 98).contains(&descriptors), "{all} of {descriptors}");
        assert_eq!(most.of_client, most.all / 4);
        assert_eq!(Limits::resolve(None, None, &[]).all, most.all.min(4_096));
    }
}
