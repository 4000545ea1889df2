//! Sorting in few bytes of code.
//!
//! The standard library's sorts are made for speed: 2 to 6 KB of code for each type that is sorted. What
//! the agent sorts off the hot path is short, and one heap sort serves all types.

/// Sorts `items`, with time in proportion to n log n and without memory. Equal items come out in any order.
pub fn sort<T>(items: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    heap_sort(items.len(), &mut |a, b, act| match (items.get_disjoint_mut([a, b]), act) {
        (Ok([a, b]), Act::Compare) => is_less(a, b),
        (Ok([a, b]), Act::Swap) => {
            std::mem::swap(a, b);
            false
        }
        // One and the same.
        (Err(_), _) => false,
    });
}

/// An operation on two items.
#[derive(Clone, Copy)]
enum Act {
    /// True if the first one belongs before the second one.
    Compare,
    Swap,
}

fn heap_sort(len: usize, act: &mut dyn FnMut(usize, usize, Act) -> bool) {
    // First each parent sinks into the heap below it, then the largest item goes behind the heap.
    for step in (0..len + len / 2).rev() {
        let (mut parent, end) = if step < len {
            act(0, step, Act::Swap);
            (0, step)
        } else {
            (step - len, len)
        };
        loop {
            let mut child = 2 * parent + 1;
            if child + 1 < end && act(child, child + 1, Act::Compare) {
                child += 1;
            }
            if child >= end || !act(parent, child, Act::Compare) {
                break;
            }
            act(parent, child, Act::Swap);
            parent = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_come_out_as_the_standard_library_sorts_them(mut items: Vec<u8>) {
            let mut expected = items.clone();
            expected.sort_unstable();
            sort(&mut items, |a, b| a < b);
            prop_assert_eq!(items, expected);
        }
    }

    #[test]
    fn many_items_take_few_comparisons() {
        let mut items: Vec<u32> = (0..10_000).map(|number| number * 7919 % 10_007).collect();
        let comparisons = std::cell::Cell::new(0);
        sort(&mut items, |a, b| {
            comparisons.set(comparisons.get() + 1);
            a < b
        });
        assert!(items.is_sorted() && comparisons.get() < 2 * 10_000 * 14, "{comparisons:?}");
    }
}
