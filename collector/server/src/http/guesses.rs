//! Limits how many wrong tokens are looked up in a minute: per client, per app named in a request, and in total.
//!
//! A client without a wrong token is always served, so a flood of guesses does not lock out others. For a client beyond the
//! limits, tokens that it has used before still work, so devices behind the same address continue.

use crate::budget::Budget;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
/// Wrong tokens of a window: of all clients, of one, and those that name one app.
const MOST: u64 = 10_000;
const OF_CLIENT: u64 = 300;
const OF_APP: u64 = 3_000;
/// Tokens that are remembered as used by a client.
const MOST_USED: u64 = 20_000;

/// Digest of a token.
type Digest = [u8; 32];

/// Wrong tokens of the current window, and the correct tokens that clients have used.
#[derive(Debug)]
pub(super) struct Guesses {
    begun: Option<Instant>,
    by_client: Budget<IpAddr, u64, ()>,
    by_app: Budget<String, u64, ()>,
    used: Budget<IpAddr, Digest, ()>,
}

impl Default for Guesses {
    fn default() -> Self {
        let by_client = Budget::new(MOST, OF_CLIENT);
        let by_app = Budget::new(MOST, OF_APP);
        Self { begun: None, by_client, by_app, used: Budget::new(MOST_USED, MOST_USED) }
    }
}

impl Guesses {
    /// True if a token of this client is to be looked up. `app`: the app that the request names.
    pub(super) fn admits(
        &mut self,
        client: IpAddr,
        app: Option<&str>,
        token: &Digest,
        now: Instant,
    ) -> bool {
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW) {
            self.begun = Some(now);
            self.by_client.clear();
            self.by_app.clear();
        }
        self.by_client.weight(&client) == 0
            || self.used.get(&client, token).is_some()
            || self.by_client.admits(&client, 1)
                && app.is_none_or(|app| self.by_app.admits(&app.to_owned(), 1))
    }

    /// Records the result of the look-up.
    pub(super) fn note(
        &mut self,
        client: IpAddr,
        app: Option<&str>,
        token: &Digest,
        is_right: bool,
    ) {
        if is_right {
            if self.used.get(&client, token).is_none() {
                self.used.put(client, *token, 1, ());
            }
            return;
        }
        let number = self.by_client.next();
        self.by_client.put(client, number, 1, ());
        app.map(|app| self.by_app.put(app.to_owned(), number, 1, ()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    /// Wrong tokens that are looked up.
    fn guess(guesses: &mut Guesses, from: u32, app: Option<&str>, now: Instant) -> u64 {
        let mut looked_up = 0;
        for _ in 0..1000 {
            if guesses.admits(client(from), app, &[9; 32], now) {
                looked_up += 1;
                guesses.note(client(from), app, &[9; 32], false);
            }
        }
        looked_up
    }

    #[test]
    fn a_client_has_a_few_wrong_tokens_a_minute_and_who_had_none_is_heard() {
        let (mut guesses, begin) = (Guesses::default(), Instant::now());
        assert_eq!(guess(&mut guesses, 1, None, begin), OF_CLIENT);
        assert_eq!(guess(&mut guesses, 2, None, begin), OF_CLIENT);
        let right = [1; 32];
        assert!(!guesses.admits(client(1), None, &right, begin));
        // Behind the address of somebody who guesses: a token that was right before.
        guesses.note(client(1), None, &right, true);
        assert!(guesses.admits(client(1), None, &right, begin));
        // Ten thousand addresses: one guess each, and nobody else is kept out.
        let all: u64 = (0..1000).map(|from| guess(&mut guesses, 100 + from, None, begin)).sum();
        assert!((5_000..12_000).contains(&all), "{all}");
        assert!(guesses.admits(client(50_000), None, &right, begin));
        let later = |s| begin + Duration::from_secs(s);
        assert_eq!(guess(&mut guesses, 1, None, later(59)), 0);
        assert_eq!(guess(&mut guesses, 1, None, later(60)), OF_CLIENT);
    }

    #[test]
    fn many_clients_that_name_one_app_share_its_guesses() {
        let (mut guesses, begin) = (Guesses::default(), Instant::now());
        let of_app: u64 = (0..100).map(|from| guess(&mut guesses, from, Some("a"), begin)).sum();
        assert!((OF_APP..OF_APP + 100).contains(&of_app), "{of_app}");
        assert_eq!(of_app / OF_CLIENT, 10, "as many as ten clients have");
        assert!(
            guesses.admits(client(5_000), Some("a"), &[1; 32], begin),
            "it has guessed nothing"
        );
        assert_eq!(guess(&mut guesses, 6_000, Some("b"), begin), OF_CLIENT);
    }
    #[test]
    fn tokens_that_were_right_are_remembered_for_20_000_senders() {
        let mut guesses = Guesses::default();
        (0..25_000).for_each(|from| guesses.note(client(from), None, &[1; 32], true));
        let is_known = |from: u32| guesses.used.get(&client(from), &[1; 32]).is_some();
        assert_eq!([0, 4_999, 5_000, 24_999].map(is_known), [false, false, true, true]);
    }
}
