//! The console over HTTP, as a browser without JavaScript uses it: sign-in, permissions, actions,
//! and protection from cross-site requests.

#[path = "http/world.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod world;

use api::advisor::Action;
use governance::roles::{APPROVER, EDITOR, VIEWER};
use http::header::{HOST, ORIGIN, RETRY_AFTER, SET_COOKIE};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kube::ResourceExt as _;
use serde_json::json;
use testkit::wait_until;

use world::{Browser, ConsoleFixture, NAME, PLAN, WAIT_TIMEOUT, form};

#[tokio::test(flavor = "multi_thread")]
async fn signed_out_user_is_redirected_back_after_sign_in() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let token = fixture.token("vic", &[VIEWER]).await?;
    let mut browser = Browser::new(fixture.address);
    let answer = browser.get("/governance/x?view=split").await?;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(
        answer.location(),
        "/sign-in?next=/governance/x%3Fview%3Dsplit"
    );

    let answer = browser.post("/sign-in", &[("token", "nonsense")]).await?;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(
        answer.body.contains("does not accept this token"),
        "{}",
        answer.body
    );

    let mut answer = None;
    wait_until("the token is accepted", WAIT_TIMEOUT, async || {
        let mut trial = Browser::new(fixture.address);
        let tried = trial.post("/sign-in", &[("token", &token)]).await?;
        Ok((tried.status == StatusCode::SEE_OTHER).then_some(()))
    })
    .await?;
    let fields = [("token", token.as_str()), ("next", "/governance")];
    let answer = answer.insert(browser.post("/sign-in", &fields).await?);
    assert_eq!(answer.location(), "/governance");
    let cookie = answer.header(SET_COOKIE).to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{part} in {cookie}");
    }
    assert!(!cookie.contains(&token), "the cookie tells nothing");
    let page = browser.page("/governance").await?;
    assert!(
        page.contains("system:serviceaccount:medley-system:vic"),
        "{page}"
    );

    let evil = [("token", token.as_str()), ("next", "//evil.example")];
    let answer = Browser::new(fixture.address)
        .post("/sign-in", &evil)
        .await?;
    assert_eq!(answer.location(), "/", "redirects stay on the console");

    let answer = browser.submit("/sign-out", &[]).await?;
    assert_eq!(answer.location(), "/sign-in");
    assert_eq!(browser.get("/").await?.status, StatusCode::SEE_OTHER);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn link_signs_in_once_as_its_creator() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let groups = [VIEWER, "system:authenticated"];
    let link = fixture
        .console
        .link(fixture.cluster.client_as("ann", &groups)?);
    let code = link.split_once("code=").unwrap().1.to_owned();
    let mut browser = Browser::new(fixture.address);
    // A GET does not use it up.
    for _ in 0..2 {
        assert!(browser.page(&link).await?.contains("Continue"));
    }
    let answer = browser.post("/sign-in/link", &[("code", &code)]).await?;
    assert_eq!(answer.location(), "/");
    assert!(browser.page("/").await?.contains("ann"));
    let answer = Browser::new(fixture.address)
        .post("/sign-in/link", &[("code", &code)])
        .await?;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(answer.body.contains("used up"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_tokens_is_rate_limited() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let mut browser = Browser::new(fixture.address);
    for _ in 0..10 {
        let answer = browser.post("/sign-in", &[("token", "guess")]).await?;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    let token = fixture.token("vic", &[VIEWER]).await?;
    let answer = browser.post("/sign-in", &[("token", &token)]).await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.header(RETRY_AFTER).parse::<u64>()? <= 60);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_allow_no_third_party_or_inline_content() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    fixture.review().await?;
    let mut browser = fixture.browser("ann", &[APPROVER]).await?;
    let config = format!("/governance/{NAME}");
    for path in [
        "/",
        "/governance",
        &config,
        "/images",
        "/sign-in",
        "/nowhere",
    ] {
        let answer = browser.get(path).await?;
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        let page = &answer.body;
        for never in [
            " style=\"",
            "<style",
            "onclick",
            "javascript:",
            "src=\"http",
            "href=\"http",
            "<script>",
        ] {
            assert!(!page.contains(never), "{path}: {never} in {page}");
        }
        for needed in [
            "<main id=\"main\"",
            "class=\"skip\"",
            "<html lang=\"en\"",
            "<h1>",
        ] {
            assert!(page.contains(needed), "{path}: {needed} in {page}");
        }
    }
    // Content of objects is escaped.
    let page = browser.page(&config).await?;
    assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    let style = page
        .split("href=\"")
        .find(|it| it.starts_with("/assets") && it.contains(".css"));
    let style = style.and_then(|it| it.split('"').next()).unwrap();
    let answer = browser.get(style).await?;
    assert_eq!(answer.header("content-type"), "text/css; charset=utf-8");
    assert!(answer.header("cache-control").contains("immutable"));
    assert!(!answer.body.contains("url("), "nothing is loaded by styles");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_site_requests_change_nothing() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let before = fixture.review().await?;
    let mut browser = fixture.browser("ann", &[APPROVER]).await?;
    let path = format!("/governance/{NAME}/approve");
    let csrf = browser.csrf().await?;
    let own = format!("http://{}", fixture.address);
    let fields = |csrf: &str| form(&[("csrf", csrf), ("digest", PLAN), ("item", "enable-metrics")]);
    for (origin, csrf, why) in [
        (None, csrf.as_str(), "no origin"),
        (
            Some("http://evil.example"),
            csrf.as_str(),
            "a foreign origin",
        ),
        (Some("null"), csrf.as_str(), "an opaque origin"),
        (Some(own.as_str()), "", "no token"),
        (Some(own.as_str()), "AAAA", "a wrong token"),
    ] {
        let mut request = browser.request(&Method::POST, &path);
        let headers = request.headers_mut().unwrap();
        headers.remove(ORIGIN);
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse()?);
        }
        let answer = browser.send(request, fields(csrf)).await?;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{why}");
    }
    // The CSRF token of another session is rejected.
    let other = fixture.browser("bob", &[APPROVER]).await?.csrf().await?;
    let answer = browser
        .post(&path, &[("csrf", &other), ("item", "enable-metrics")])
        .await?;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    // Hosts that an attacker's DNS could point here are rejected.
    for (host, code) in [
        ("evil.example", StatusCode::FORBIDDEN),
        ("console.example", StatusCode::OK),
        ("localhost:1", StatusCode::OK),
    ] {
        let mut request = browser.request(&Method::GET, "/sign-in");
        request.headers_mut().unwrap().insert(HOST, host.parse()?);
        assert_eq!(
            browser.send(request, String::new()).await?.status,
            code,
            "{host}"
        );
    }
    assert_eq!(fixture.configs().get(NAME).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_decide_what_users_see_and_do() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    fixture.review().await?;
    let path = format!("/governance/{NAME}");
    let approve = format!("{path}/approve");
    let form = [("digest", PLAN), ("item", "enable-metrics")];

    // A user without permissions sees nothing.
    let mut nobody = fixture.browser("nobody", &[]).await?;
    let page = nobody.page("/governance").await?;
    assert!(
        page.contains("may not read virtplatformconfigs") && !page.contains(NAME),
        "{page}"
    );
    assert_eq!(nobody.get(&path).await?.status, StatusCode::FORBIDDEN);
    assert!(nobody.page("/").await?.contains("sees none of the jobs"));

    // A viewer reads everything and is offered no action.
    let mut viewer = fixture.browser("vic", &[VIEWER]).await?;
    let page = viewer.page(&path).await?;
    for part in [
        "Waits for review",
        "High impact",
        "All workers reboot",
        "enable-metrics",
        "<del>-   old: 1</del>",
        "from <strong>kubectl-edit</strong>, its owner since 2026-01-02T03:04:05Z",
        "spec.interval is 60: changed by admission (MutatingAdmissionPolicy floor) to 120",
        "role medley-approver",
        "role medley-history-viewer",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(
        !page.contains("/approve\"") && !page.contains("/plan\""),
        "{page}"
    );
    let split = viewer.page(&format!("{path}?view=split")).await?;
    assert!(split.contains("<ins>  more: 2</ins>"), "{split}");
    for action in ["approve", "plan", "reject", "ignore"] {
        let answer = viewer.submit(&format!("{path}/{action}"), &form).await?;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{action}: {}",
            answer.body
        );
        assert!(answer.body.contains("Not allowed"), "{}", answer.body);
    }

    // An editor prepares, and does not approve.
    let mut editor = fixture.browser("ed", &[EDITOR]).await?;
    let page = editor.page(&path).await?;
    assert!(
        page.contains("/plan\"") && !page.contains("/approve\""),
        "{page}"
    );
    let answer = editor.submit(&approve, &form).await?;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.body.contains("approve"), "{}", answer.body);
    assert_eq!(
        fixture.configs().get(NAME).await?.spec.action,
        Action::DryRun
    );

    // An approver approves exactly the plan that was shown.
    let mut approver = fixture.browser("ann", &[APPROVER]).await?;
    assert!(approver.page(&path).await?.contains("/approve\""));
    let answer = approver.submit(&approve, &[("digest", PLAN)]).await?;
    assert_eq!(
        answer.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "no item is chosen"
    );
    let both = [
        ("digest", PLAN),
        ("item", "enable-metrics"),
        ("item", "descheduler"),
    ];
    let answer = approver.submit(&approve, &both).await?;
    assert!(answer.body.contains("without consent"), "{}", answer.body);
    let other = [
        ("digest", "sha256:2222222222222222"),
        ("item", "enable-metrics"),
    ];
    let answer = approver.submit(&approve, &other).await?;
    assert!(
        answer.body.contains("the plan under review is"),
        "{}",
        answer.body
    );
    let taking = [
        both[0],
        both[1],
        both[2],
        ("takeover", "descheduler:spec.mode"),
    ];
    let answer = approver.submit(&approve, &taking).await?;
    assert_eq!(answer.location(), path);
    let page = approver.page(&path).await?;
    assert!(
        page.contains("role=\"status\">The plan is approved"),
        "{page}"
    );
    let config = fixture.configs().get(NAME).await?;
    assert_eq!(config.spec.action, Action::Apply);
    let approval = config.spec.approval.clone().unwrap();
    assert_eq!(approval.plan_digest.as_deref(), Some(PLAN));
    assert_eq!(approval.items, Vec::<String>::new(), "all of them");
    assert_eq!(approval.takeovers.len(), 1);
    let managers = config
        .managed_fields()
        .iter()
        .filter_map(|it| it.manager.as_deref());
    assert!(
        managers.clone().any(|it| it == console::MANAGER),
        "{:?}",
        managers.collect::<Vec<_>>()
    );
    let recorded = &config.annotations()[api::advisor::names::APPROVALS];
    assert!(
        recorded.contains("medley-system:ann"),
        "in their own name: {recorded}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn open_page_is_notified_until_sign_out() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    fixture.review().await?;
    let mut viewer = fixture.browser("vic", &[VIEWER]).await?;
    viewer.page("/governance").await?;
    let request = viewer.request(&Method::GET, "/live?page=/governance");
    let mut stream = viewer.open(request, String::new()).await?.into_body();
    fixture.report(json!({ "phase": "InProgress" })).await?;
    let events = tokio::time::timeout(WAIT_TIMEOUT, stream.frame())
        .await?
        .unwrap()?;
    let events = events.into_data().unwrap();
    assert_eq!(events, "event: changed\ndata: /governance\n\n");
    assert!(viewer.page("/governance").await?.contains("Being applied"));

    let unknown = viewer.get("/live?page=/nowhere").await?;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    viewer.submit("/sign-out", &[]).await?;
    tokio::time::timeout(WAIT_TIMEOUT, async {
        while let Some(Ok(_)) = stream.frame().await {}
    })
    .await?;
    Ok(())
}
