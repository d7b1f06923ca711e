use super::*;

/// Counts the objects of two watches. Deriving takes long enough for the tasks of both to overlap.
#[derive(Default)]
struct Counted([u32; 2]);

impl Sources for Counted {
    type Settings = [u32; 2];

    fn settings(&self) -> [u32; 2] {
        let read = self.0;
        std::thread::yield_now();
        read
    }
}

#[test]
fn concurrent_updates_are_not_lost() {
    let derived: Derived<Counted> = Derived::default();
    std::thread::scope(|scope| {
        for watch in 0..2 {
            let derived = &derived;
            scope.spawn(move || {
                for expected in 1..=2_000 {
                    derived.update(|sources| sources.0[watch] += 1);
                    // Settings that the other task derived from an older state would hide the own update.
                    assert_eq!(derived.current()[watch], expected);
                }
            });
        }
    });
    assert_eq!(*derived.current(), [2_000, 2_000]);
}

#[test]
fn unchanged_settings_are_not_replaced() {
    let derived: Derived<Counted> = Derived::default();
    assert!(derived.update(|sources| sources.0[0] = 1));
    let before = derived.current();
    assert!(!derived.update(|_| {}));
    assert!(Arc::ptr_eq(&before, &derived.current()));
}
