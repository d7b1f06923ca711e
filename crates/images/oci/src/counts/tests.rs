use super::*;

#[test]
fn rate_limits_are_recorded_per_host() {
    let counts = Counts::default();
    counts.record_rate_limit("docker.io", "76;w=21600");
    counts.record_rate_limit("docker.io", "75;w=21600");
    counts.record_rate_limit("quay.io", "plenty");
    assert_eq!(
        counts.left(),
        BTreeMap::from([("docker.io".to_owned(), 75)])
    );
}

#[test]
fn number_of_counted_hosts_is_bounded() {
    let counts = Counts::default();
    for n in 0..MAX_HOSTS + 10 {
        counts.add(&format!("h{n}"), Operation::Manifest);
    }
    counts.add("h1", Operation::Token);
    assert_eq!(counts.host("h1"), 2);
    assert_eq!(counts.of("h1", Operation::Token), 1);
    assert_eq!(counts.host(OTHERS), 10);
    assert_eq!(counts.all().len(), MAX_HOSTS + 2);
}
