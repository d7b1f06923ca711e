//! Which certificates of a webhook are trusted: those that Go's `crypto/x509` accepts with `caBundle` as roots.

use apiserver::pki::Identity;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::json;
use testkit::{TestCluster, WebhookServer};

use crate::allow_all;
use crate::webhooks_support::{Hooks, RULES_MAPS, ask, map};

/// Host of the webhooks.
const HOST: &str = "127.0.0.1";

/// A webhook's certificate that is in `caBundle` itself.
struct Case {
    name: &'static str,
    /// Signed by an authority that is not in `caBundle`, instead of by its own key.
    is_signed: bool,
    change: fn(&mut CertificateParams),
    /// The error after the URL; `None` if the webhook is called.
    error: Option<&'static str>,
}

fn authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2020, 1, 2);
}

const CASES: [Case; 13] = [
    // As envtest does it.
    Case {
        name: "signed",
        is_signed: true,
        change: |_| {},
        error: None,
    },
    Case {
        name: "self-signed",
        is_signed: false,
        change: |_| {},
        error: None,
    },
    // As `openssl req -x509` makes it.
    Case {
        name: "self-signed-authority",
        is_signed: false,
        change: authority,
        error: None,
    },
    Case {
        name: "signed-authority",
        is_signed: true,
        change: authority,
        error: None,
    },
    Case {
        name: "for-any-usage",
        is_signed: true,
        change: |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any],
        error: None,
    },
    Case {
        name: "for-clients",
        is_signed: true,
        change: |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
        error: Some("certificate specifies an incompatible key usage"),
    },
    Case {
        name: "authority-for-clients",
        is_signed: false,
        change: |params| {
            authority(params);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        },
        error: Some("certificate specifies an incompatible key usage"),
    },
    Case {
        name: "for-another-name",
        is_signed: true,
        change: |params| params.subject_alt_names = Vec::new(),
        error: Some(
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
    },
    Case {
        name: "authority-for-another-name",
        is_signed: false,
        change: |params| {
            authority(params);
            params.subject_alt_names = Vec::new();
        },
        error: Some(
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
    },
    Case {
        name: "expired",
        is_signed: true,
        change: expired,
        error: Some("certificate has expired or is not yet valid: current time "),
    },
    Case {
        name: "expired-authority",
        is_signed: false,
        change: |params| {
            authority(params);
            expired(params);
        },
        error: Some("certificate has expired or is not yet valid: current time "),
    },
    Case {
        name: "not-yet-valid",
        is_signed: true,
        change: |params| params.not_before = date_time_ymd(3000, 1, 1),
        error: Some("certificate has expired or is not yet valid: current time "),
    },
    // Both apply; Go reports the time.
    Case {
        name: "expired-for-another-name",
        is_signed: true,
        change: |params| {
            expired(params);
            params.subject_alt_names = Vec::new();
        },
        error: Some("certificate has expired or is not yet valid: current time "),
    },
];

impl Case {
    fn identity(&self) -> anyhow::Result<Identity> {
        let mut params = CertificateParams::new(vec![HOST.to_owned()])?;
        params
            .distinguished_name
            .push(DnType::CommonName, self.name);
        (self.change)(&mut params);
        let key = KeyPair::generate()?;
        let certificate = if self.is_signed {
            let mut issuer = CertificateParams::new(Vec::new())?;
            issuer.distinguished_name.push(DnType::CommonName, "issuer");
            authority(&mut issuer);
            params.signed_by(&key, &Issuer::new(issuer, KeyPair::generate()?))?
        } else {
            params.self_signed(&key)?
        };
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

#[tokio::test]
async fn certificate_in_the_bundle_is_trusted_as_go_does() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "certificates").await?;
    let mut servers = Vec::new();
    for case in &CASES {
        let identity = case.identity()?;
        let server =
            WebhookServer::presenting(&identity, &identity.certificate, false, allow_all).await?;
        servers.push((case, server));
    }
    let registered = servers.iter().map(|(case, server)| {
        let more = json!({ "objectSelector": { "matchLabels": { "case": case.name } } });
        hooks.hook_at(case.name, RULES_MAPS, server.client_config("/"), more)
    });
    hooks
        .validating("certificates", registered.collect())
        .await?;
    let mut wrong = Vec::new();
    for (case, server) in &servers {
        let mut object = map(case.name, json!({}));
        object["metadata"]["labels"] = json!({ "case": case.name });
        let (code, body, _) = ask(&cluster, "POST", &hooks.maps(), &object).await?;
        let message = body["message"].as_str().unwrap_or_default();
        let calls = server.questions("/").len();
        let is_expected = match case.error {
            None => code == 201 && calls == 1,
            Some(error) => {
                let prefix = "tls: failed to verify certificate: x509: ";
                code == 500 && calls == 0 && message.contains(&format!("{prefix}{error}"))
            }
        };
        if !is_expected {
            wrong.push(format!("{}: {code}, {calls} calls: {message}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn other_certificate_of_the_same_name_is_not_trusted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "siblings").await?;
    let case = Case {
        name: "sibling",
        is_signed: false,
        change: authority,
        error: None,
    };
    let (presented, bundled) = (case.identity()?, case.identity()?);
    let server =
        WebhookServer::presenting(&presented, &bundled.certificate, false, allow_all).await?;
    let hook = hooks.hook_at("sibling", RULES_MAPS, server.client_config("/"), json!({}));
    hooks.validating("siblings", vec![hook]).await?;
    let (code, body, _) = ask(&cluster, "POST", &hooks.maps(), &map("a", json!({}))).await?;
    assert_eq!(code, 500, "{body}");
    assert_eq!(server.questions("/").len(), 0);
    Ok(())
}
