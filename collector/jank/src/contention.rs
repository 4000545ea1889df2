//! ART's description of a lock: its holder, its waiter, and their places.
//!
//! `monitor contention with owner NAME (TID) at METHOD(FILE:LINE) waiters=N blocking from
//! METHOD(FILE:LINE)`.

/// A wait for a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contention {
    /// The name of the thread that holds the monitor.
    pub owner: String,
    /// The id of that thread; `None` if ART does not know it.
    pub owner_tid: Option<u32>,
    /// The method in which that thread is: `com.example.Class.method`.
    pub owner_method: String,
    /// The method in which the waiting thread is.
    pub blocked_method: String,
}

impl Contention {
    /// Parses a slice's name; `None` if it is not a wait for a monitor.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("monitor contention with owner ")?;
        // The thread's name may hold anything: the last place counts at which the rest fits.
        let (head, blocked) = rest.rsplit_once(" blocking from ")?;
        let (head, _) = head.rsplit_once(" waiters=")?;
        let (owner, owner_at) = split_owner(head)?;
        let (owner, tid) = owner.rsplit_once(" (")?;
        Some(Self {
            owner: owner.to_owned(),
            owner_tid: known_tid(tid),
            owner_method: method(owner_at),
            blocked_method: method(blocked),
        })
    }

    /// Returns the key that all waits between the same two methods share.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{} held by {}", self.blocked_method, self.owner_method)
    }
}

/// The id of a lock's owner; ART writes 0 if it does not know it.
pub(crate) fn known_tid(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&tid| tid != 0)
}

/// `NAME (TID` and the method, at the first `) at ` after a number.
fn split_owner(head: &str) -> Option<(&str, &str)> {
    head.match_indices(") at ").find_map(|(at, text)| {
        let owner = head.get(..at)?;
        let tid = owner.rsplit_once(" (")?.1;
        let is_tid = !tid.is_empty() && tid.bytes().all(|byte| byte.is_ascii_digit());
        is_tid.then(|| Some((owner, head.get(at + text.len()..)?)))?
    })
}

/// `void a.b.C.d(int)(C.java:12)` is `a.b.C.d`.
fn method(text: &str) -> String {
    let before = text.split('(').next().unwrap_or(text).trim();
    before.rsplit(' ').next().unwrap_or(before).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_both_methods_are_read() {
        let text = "monitor contention with owner Matrix#AnrTracer (25004) at android.os.Message \
            android.os.MessageQueue.next()(MessageQueue.java:386) waiters=0 blocking from boolean \
            android.os.MessageQueue.enqueueMessage(android.os.Message, long)(MessageQueue.java:549)";
        let contention = Contention::parse(text).unwrap();
        let expected = Contention {
            owner: "Matrix#AnrTracer".to_owned(),
            owner_tid: Some(25004),
            owner_method: "android.os.MessageQueue.next".to_owned(),
            blocked_method: "android.os.MessageQueue.enqueueMessage".to_owned(),
        };
        assert_eq!(contention, expected);
        assert_eq!(
            contention.key(),
            "android.os.MessageQueue.enqueueMessage held by android.os.MessageQueue.next"
        );
    }

    #[test]
    fn a_thread_may_be_called_anything() {
        let text = "monitor contention with owner pool (a) at 3 (17) at void a.b.c()(x:1) waiters=2 \
            blocking from d.e.f(int)(y:2)";
        let contention = Contention::parse(text).unwrap();
        assert_eq!((&*contention.owner, contention.owner_tid), ("pool (a) at 3", Some(17)));
        assert_eq!(contention.owner_method, "a.b.c");
        assert_eq!(contention.blocked_method, "d.e.f");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much_for_it(
            text in "(monitor contention with owner |\\(| at |[0-9]{1,3}|\\)| waiters=| blocking from |[a-z.]{0,5}){0,12}"
        ) {
            let _ = Contention::parse(&text);
        }
    }
}
