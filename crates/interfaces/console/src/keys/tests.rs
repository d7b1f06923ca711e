use super::ring::PROPAGATION_TIME;
use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

#[test]
fn sealed_texts_open_only_for_their_purpose_and_unchanged() {
    let keys = SessionKeys::of_process();
    let now = at(0);
    let sealed = keys.seal(Purpose::Session, b"token", now).unwrap();
    assert_ne!(sealed, keys.seal(Purpose::Session, b"token", now).unwrap());
    assert_eq!(keys.open(Purpose::Session, &sealed).unwrap(), b"token");
    assert_eq!(keys.open(Purpose::SignIn, &sealed), None);
    assert_eq!(keys.open(Purpose::Notice, &sealed), None);
    assert_eq!(
        SessionKeys::of_process().open(Purpose::Session, &sealed),
        None
    );
    // Every changed, missing or added character is noticed.
    for at in 0..sealed.len() {
        let mut forged = sealed.clone().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(keys.open(Purpose::Session, &forged), None, "{at}");
    }
    for forged in [
        &sealed[1..],
        &sealed[..sealed.len() - 1],
        "",
        "AAAA",
        "!",
        &"A".repeat(40),
    ] {
        assert_eq!(keys.open(Purpose::Session, forged), None, "{forged}");
    }
}

#[test]
fn new_keys_encrypt_after_every_replica_has_read_them() {
    let (old, new) = (Key::random(at(0)), Key::random(at(1000)));
    let both = KeyRing::new(vec![old.clone(), new.clone()]);
    let only = |key: &Key| KeyRing::new(vec![key.clone()]);
    let fresh = at(1000) + PROPAGATION_TIME;
    for (now, key) in [(at(1001), &old), (fresh, &new)] {
        let sealed = both.seal(Purpose::Session, b"x", now).unwrap();
        assert!(only(key).open(Purpose::Session, &sealed).is_some(), "{now}");
    }
    // The very first key encrypts at once.
    let sealed = only(&new).seal(Purpose::Session, b"x", at(1000)).unwrap();
    assert!(both.open(Purpose::Session, &sealed).is_some());
    assert!(
        KeyRing::new(Vec::new())
            .seal(Purpose::Session, b"x", at(0))
            .is_none()
    );
}

#[test]
fn keys_are_rotated_daily_and_kept_for_open_sessions() {
    let day = 24 * 60 * 60;
    let first = secret::rotate(Vec::new(), at(0));
    assert_eq!(first.len(), 1);
    assert_eq!(secret::rotate(first.clone(), at(day - 1)), first);
    let both = secret::rotate(first.clone(), at(day));
    assert_eq!((both.len(), &both[0]), (2, &first[0]));
    // The former key opens cookies that were written until its successor was propagated.
    assert_eq!(secret::rotate(both.clone(), at(day + 60 * 60)), both);
    let later = secret::rotate(both.clone(), at(day + 62 * 60));
    assert_eq!(later, both[1..]);
}

#[test]
fn keys_are_not_shown() {
    let key = Key::random(at(0));
    let shown = format!("{key:?} {:?}", SessionKeys::of_process());
    let json = serde_json::to_value(&key).unwrap();
    assert!(!shown.contains(json["secret"].as_str().unwrap()), "{shown}");
}

#[test]
fn ended_sessions_of_one_user_do_not_displace_those_of_others() {
    let mut ended = Ended::new();
    ended.insert("ann.1".to_owned(), at(10));
    ended.insert("ann.2".to_owned(), at(0));
    for session in 0..1000 {
        ended.insert(format!("bob.{session}"), at(100 + session));
    }
    prune(&mut ended, at(0));
    assert!(ended.contains_key("ann.1"));
    assert!(!ended.contains_key("ann.2"), "its cookies have expired");
    assert!(ended.contains_key("bob.999"));
    assert_eq!(ended.len(), 1 + MAX_ENDED_PER_USER);
}

#[tokio::test]
async fn key_files_are_rotated_by_their_first_line() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(crate::secret::random());
    std::fs::create_dir(&folder)?;
    let path = folder.join("keys");
    let line = |byte: u8| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode([byte; 32])
    };
    for (content, wrong) in [("", 1), ("short\n", 1), (&format!("{}\nx", line(1)), 2)] {
        std::fs::write(&path, content)?;
        let error = SessionKeys::of_file(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("line {wrong}")), "{error}");
    }
    std::fs::write(&path, format!("{}\n", line(1)))?;
    let keys = SessionKeys::of_file(&path)?;
    let old = keys.seal(Purpose::Session, b"x", at(0)).unwrap();
    std::fs::write(&path, format!("{}\n{}\n", line(2), line(1)))?;
    keys.read(at(0)).await?;
    let new = keys.seal(Purpose::Session, b"x", at(0)).unwrap();
    assert!(keys.open(Purpose::Session, &old).is_some());
    // Without the former key, sessions that it encrypted end.
    std::fs::write(&path, format!("{}\n", line(2)))?;
    keys.read(at(0)).await?;
    assert!(keys.open(Purpose::Session, &old).is_none());
    assert!(keys.open(Purpose::Session, &new).is_some());
    // A file that is being replaced changes nothing.
    std::fs::write(&path, "")?;
    keys.read(at(0)).await.unwrap_err();
    assert!(keys.open(Purpose::Session, &new).is_some());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
