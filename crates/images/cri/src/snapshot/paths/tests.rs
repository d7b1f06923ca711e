use super::*;

#[test]
fn paths_are_found_in_all_runs() {
    let mut set = PathSet::default();
    let path = |number: usize| format!("folder/{number}").into_bytes();
    let many = 3 * RUN_LENGTH + 17;
    for number in 0..many {
        assert!(set.insert(&path(number)).unwrap());
    }
    assert_eq!(set.runs.len(), 3);
    for number in (0..many).step_by(101) {
        assert!(set.contains(&path(number)));
        assert!(!set.insert(&path(number)).unwrap());
        assert!(!set.contains(&path(many + number)));
    }
    set.clear();
    assert!(!set.contains(&path(0)));
}

#[test]
fn paths_beyond_the_limit_are_rejected() {
    let mut set = PathSet::default();
    let refused = (0..=MAX_PATHS).find_map(|number| set.insert(&number.to_be_bytes()).err());
    assert!(refused.unwrap().to_string().contains("262144 files"));
}
