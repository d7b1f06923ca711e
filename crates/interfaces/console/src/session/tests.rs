use super::*;

const TOKEN: &str = "a-bearer-token";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(4_000_000_000 + seconds).unwrap()
}

fn sessions(keys: &SessionKeys) -> Sessions {
    let url = "http://127.0.0.1:1".parse().unwrap();
    Sessions::new(Config::new(url), keys.clone())
}

fn signed_in(sessions: &Sessions, credentials: Credentials) -> Arc<Session> {
    let bearer = Bearer::new(TOKEN).unwrap();
    let client = client(&sessions.cluster, &bearer).unwrap();
    sessions.begin("ann".to_owned(), client, credentials, Some(bearer), at(0))
}

fn token() -> Credentials {
    Credentials::Token(TOKEN.to_owned())
}

fn tokens(bearer: &str, expires: i64) -> Tokens {
    Tokens {
        bearer: bearer.to_owned(),
        refresh: Some("r".to_owned()),
        subject: Some("s".to_owned()),
        expires: at(expires),
    }
}

#[tokio::test]
async fn any_replica_continues_a_session() {
    let keys = SessionKeys::of_process();
    let (one, other) = (sessions(&keys), sessions(&keys));
    let session = signed_in(&one, token());
    let cookie = one.cookie(&session, at(0)).unwrap();
    assert!(!cookie.contains(TOKEN) && !cookie.contains("ann"));
    let there = other.resume(&cookie, at(1)).unwrap().session;
    assert_eq!((&there.user, &there.csrf), (&session.user, &session.csrf));
    assert!(Arc::ptr_eq(
        &there,
        &other.resume(&cookie, at(2)).unwrap().session
    ));
    // Another console has other keys.
    assert!(
        sessions(&SessionKeys::of_process())
            .resume(&cookie, at(1))
            .is_none()
    );
}

#[tokio::test]
async fn cookies_expire_when_unused_and_after_hours() {
    let minute = 60;
    let sessions = sessions(&SessionKeys::of_process());
    let session = signed_in(&sessions, token());
    let mut cookie = sessions.cookie(&session, at(0)).unwrap();
    assert!(!sessions.resume(&cookie, at(59)).unwrap().is_stale);
    assert!(sessions.resume(&cookie, at(minute)).unwrap().is_stale);
    // A copy of an old cookie is refused even while the session is in use.
    let copy = cookie.clone();
    for passed in (0..8 * 60).step_by(20) {
        let now = at(passed * minute);
        let resumed = sessions.resume(&cookie, now).unwrap();
        cookie = sessions.cookie(&resumed.session, now).unwrap();
    }
    assert!(sessions.resume(&copy, at(30 * minute)).is_none());
    assert!(sessions.resume(&cookie, at(8 * 60 * minute)).is_none());
}

#[tokio::test]
async fn ended_sessions_stay_ended() {
    let keys = SessionKeys::of_process();
    let (one, other) = (sessions(&keys), sessions(&keys));
    let session = signed_in(&one, token());
    let cookie = one.cookie(&session, at(0)).unwrap();
    let there = other.resume(&cookie, at(1)).unwrap().session;
    one.end(&session);
    session.ended().await;
    // The time is that of the test, which the list of ended sessions is compared with.
    assert!(one.resume(&cookie, at(2)).is_none());
    assert!(other.resume(&cookie, at(2)).is_none());
    other.drop_ended();
    there.ended().await;
}

#[tokio::test]
async fn clients_of_links_stay_in_their_process() {
    let keys = SessionKeys::of_process();
    let (one, other) = (sessions(&keys), sessions(&keys));
    let session = signed_in(&one, Credentials::Local);
    let cookie = one.cookie(&session, at(0)).unwrap();
    assert!(one.resume(&cookie, at(1)).is_some());
    assert!(other.resume(&cookie, at(1)).is_none());
}

#[tokio::test]
async fn latest_tokens_are_kept_wherever_they_were_renewed() {
    let keys = SessionKeys::of_process();
    let (one, other) = (sessions(&keys), sessions(&keys));
    let session = signed_in(&one, Credentials::Provider(tokens("first", 300)));
    let old = one.cookie(&session, at(0)).unwrap();
    let there = other.resume(&old, at(1)).unwrap().session;
    session.renew(tokens("second", 600));
    // The browser has the former tokens: it gets the new ones.
    assert!(one.resume(&old, at(2)).unwrap().is_stale);
    let new = one.cookie(&session, at(2)).unwrap();
    assert!(!other.resume(&new, at(3)).unwrap().is_stale);
    assert_eq!(there.tokens().unwrap().bearer, "second");
    // A late request with the former cookie does not bring them back.
    assert!(other.resume(&old, at(4)).unwrap().is_stale);
    assert_eq!(there.tokens().unwrap().bearer, "second");
}
