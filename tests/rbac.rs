//! Authorization over a socket, with credentials as workloads in a cluster have them.

use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{ServedCluster, TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A cluster on a socket, and a namespace of the test's own.
struct RbacFixture {
    cluster: TestCluster,
    served: ServedCluster,
    namespace: String,
}

impl RbacFixture {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let served = cluster.serve().await?;
        let namespace = cluster.namespace("rbac").await?;
        Ok(Self {
            cluster,
            served,
            namespace,
        })
    }

    /// A client with these credentials, as a kubeconfig has them.
    async fn client(&self, credentials: Value) -> anyhow::Result<Client> {
        let text = std::fs::read_to_string(&self.served.kubeconfig)?;
        let mut kubeconfig: Value = serde_saphyr::from_str(&text)?;
        kubeconfig["users"][0]["user"] = credentials;
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Client::try_from(config).context("making a client")
    }

    /// A service account and a client that has its token.
    async fn robot(&self, name: &str) -> anyhow::Result<Client> {
        self.robot_in(name, None).await
    }

    /// The same with a token that is bound to a pod.
    async fn robot_in(&self, name: &str, pod: Option<&str>) -> anyhow::Result<Client> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.client(), &self.namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let options = PostParams::default();
        accounts.create(&options, &account).await?;
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                bound_object_ref: pod.map(|pod| BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.to_owned()),
                    uid: None,
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let issued = accounts
            .create_token_request(name, &options, &request)
            .await?;
        let token = issued.status.context("a token without a status")?.token;
        self.client(json!({"token": token})).await
    }

    fn robot_name(&self, name: &str) -> String {
        format!("system:serviceaccount:{}:{name}", self.namespace)
    }

    /// Grants RBAC rules to a service account, in the namespace or in the whole cluster.
    async fn grant(&self, robot: &str, everywhere: bool, rules: Value) -> anyhow::Result<()> {
        let (prefix, role, binding, at) = if everywhere {
            (
                "Cluster",
                "clusterroles",
                "clusterrolebindings",
                RBAC.to_owned(),
            )
        } else {
            let at = format!("{RBAC}/namespaces/{}", self.namespace);
            ("", "roles", "rolebindings", at)
        };
        let name = format!("{}-{robot}", self.namespace);
        let api_version = "rbac.authorization.k8s.io/v1";
        let subject = json!({"kind": "ServiceAccount", "name": robot, "namespace": self.namespace});
        for (plural, object) in [
            (
                role,
                json!({"kind": format!("{prefix}Role"), "rules": rules}),
            ),
            (
                binding,
                json!({
                    "kind": format!("{prefix}RoleBinding"),
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": format!("{prefix}Role"),
                        "name": name,
                    },
                    "subjects": [subject],
                }),
            ),
        ] {
            let mut object = object;
            object["apiVersion"] = api_version.into();
            object["metadata"] = json!({"name": name});
            let path = format!("{at}/{plural}");
            let (code, answer) =
                ask(&self.cluster.client(), Method::POST, &path, &object, &[]).await?;
            anyhow::ensure!(code == 201, "{path}: {answer}");
        }
        Ok(())
    }

    /// Repeats a request until it returns a status code: kube-apiserver observes a new binding a little later.
    /// The embedded server has to observe it at once.
    async fn settles(&self, client: &Client, path: &str, code: u16) -> anyhow::Result<Value> {
        if !self.cluster.is_genuine() {
            let (got, answer) = ask(client, Method::GET, path, &Value::Null, &[]).await?;
            anyhow::ensure!(got == code, "{path}: {got} {answer}");
            return Ok(answer);
        }
        wait_until(&format!("{path} answers {code}"), WAIT_TIMEOUT, || async {
            let (got, answer) = ask(client, Method::GET, path, &Value::Null, &[]).await?;
            Ok((got == code).then_some(answer))
        })
        .await
    }
}

/// Sends a request; returns the status code and the response.
async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
    headers: &[(&str, &str)],
) -> anyhow::Result<(u16, Value)> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() {
        Vec::new()
    } else {
        request = request.header("content-type", "application/json");
        body.to_string().into_bytes()
    };
    let answer = client.send(request.body(body.into())?).await?;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await?;
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    Ok((
        code,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
    ))
}

#[tokio::test]
async fn service_account_has_the_permissions_of_its_role() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let robot = fixture.robot("writer").await?;
    let maps: Api<ConfigMap> = Api::namespaced(robot.clone(), &fixture.namespace);
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else {
        anyhow::bail!("not refused: {refused}");
    };
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        format!(
            "configmaps is forbidden: User \"{}\" cannot list resource \"configmaps\" in API group \"\" \
             in the namespace \"{}\"",
            fixture.robot_name("writer"),
            fixture.namespace
        )
    );

    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]}]);
    fixture.grant("writer", false, rules).await?;
    let path = format!("/api/v1/namespaces/{}/configmaps", fixture.namespace);
    fixture.settles(&robot, &path, 200).await?;
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("made".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await?;
    let (code, _) = ask(
        &robot,
        Method::GET,
        &format!("{path}?watch=true&timeoutSeconds=1"),
        &Value::Null,
        &[],
    )
    .await?;
    assert_eq!(code, 200);
    for (method, path) in [
        (Method::GET, format!("{path}/made")),
        (Method::DELETE, format!("{path}/made")),
        (Method::GET, "/api/v1/configmaps".to_owned()),
        (
            Method::GET,
            "/api/v1/namespaces/default/configmaps".to_owned(),
        ),
        (
            Method::GET,
            format!("/api/v1/namespaces/{}/secrets", fixture.namespace),
        ),
    ] {
        let (code, answer) = ask(&robot, method.clone(), &path, &Value::Null, &[]).await?;
        assert_eq!(code, 403, "{method} {path}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn permissions_end_with_their_binding() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let robot = fixture.robot("reader").await?;
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]);
    fixture.grant("reader", true, rules).await?;
    fixture.settles(&robot, "/api/v1/nodes", 200).await?;
    let binding = format!("{RBAC}/clusterrolebindings/{}-reader", fixture.namespace);
    let admin = fixture.cluster.client();
    let (code, answer) = ask(&admin, Method::DELETE, &binding, &Value::Null, &[]).await?;
    assert_eq!(code, 200, "{answer}");
    fixture.settles(&robot, "/api/v1/nodes", 403).await?;
    Ok(())
}

#[tokio::test]
async fn anonymous_users_may_read_health_and_version() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let nobody = fixture.client(json!({})).await?;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let (code, answer) = ask(&nobody, Method::GET, path, &Value::Null, &[]).await?;
        assert_eq!(code, 200, "{path}: {answer}");
    }
    for path in ["/api", "/apis", "/openapi/v3", "/metrics"] {
        let (code, answer) = ask(&nobody, Method::GET, path, &Value::Null, &[]).await?;
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        assert_eq!((code, &answer["message"]), (403, &json!(message)));
    }
    let stranger = fixture.client(json!({"token": "nonsense"})).await?;
    let (code, answer) = ask(&stranger, Method::GET, "/healthz", &Value::Null, &[]).await?;
    assert_eq!(
        (code, &answer["message"], &answer["reason"]),
        (401, &json!("Unauthorized"), &json!("Unauthorized"))
    );
    Ok(())
}

/// The user that the server authenticates, or its error.
async fn who(client: &Client, headers: &[(&str, &str)]) -> anyhow::Result<(u16, Value)> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, answer) = ask(client, Method::POST, path, &review, headers).await?;
    Ok(match code {
        201 => (code, answer["status"]["userInfo"].clone()),
        _ => (code, answer["message"].clone()),
    })
}

#[tokio::test]
async fn impersonation_is_limited_to_permitted_users() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let robot = fixture.robot("proxy").await?;
    let name = fixture.robot_name("proxy");
    let bob = [("impersonate-user", "bob")];
    assert_eq!(
        who(&robot, &bob).await?,
        (
            403,
            json!(format!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"{name}\" cannot \
                 impersonate-on:user-info:create resource \"selfsubjectreviews\" in API group \
                 \"authentication.k8s.io\" at the cluster scope"
            ))
        )
    );
    let rules = json!([
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]},
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["devs"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["uids"], "verbs": ["impersonate"], "resourceNames": ["u-1"]},
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["userextras/scopes"],
            "verbs": ["impersonate"],
            "resourceNames": ["view"],
        },
    ]);
    fixture.grant("proxy", true, rules).await?;
    let whole = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "devs"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-scopes", "view"),
    ];
    let became = wait_until("the proxy becomes bob", WAIT_TIMEOUT, || async {
        let (code, answer) = who(&robot, &whole).await?;
        Ok((code == 201).then_some(answer))
    })
    .await?;
    assert_eq!(
        became,
        json!({
            "username": "bob",
            "uid": "u-1",
            "groups": ["devs", "system:authenticated"],
            "extra": {"scopes": ["view"]},
        })
    );
    let refusal = |kind: &str, name: &str, resource: &str, group: &str| {
        let user = fixture.robot_name("proxy");
        json!(format!(
            "{kind} \"{name}\" is forbidden: User \"{user}\" cannot impersonate resource \"{resource}\" \
             in API group \"{group}\" at the cluster scope"
        ))
    };
    let authentication = "authentication.k8s.io";
    for (header, value, message) in [
        (
            "impersonate-user",
            "ann",
            refusal("users", "ann", "users", ""),
        ),
        (
            "impersonate-group",
            "ops",
            refusal("groups", "ops", "groups", ""),
        ),
        (
            "impersonate-uid",
            "u-2",
            refusal("uids.authentication.k8s.io", "u-2", "uids", authentication),
        ),
        (
            "impersonate-extra-scopes",
            "edit",
            refusal(
                "userextras.authentication.k8s.io",
                "edit",
                "userextras/scopes",
                authentication,
            ),
        ),
    ] {
        let mut headers = vec![(header, value)];
        if header != "impersonate-user" {
            headers.push(("impersonate-user", "bob"));
        }
        assert_eq!(who(&robot, &headers).await?, (403, message), "{headers:?}");
    }
    Ok(())
}

#[tokio::test]
async fn constrained_impersonation_is_limited_to_permitted_requests() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let robot = fixture.robot("agent").await?;
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["impersonate-on:user-info:list"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["groups"], "verbs": ["impersonate:user-info"]},
    ]);
    fixture.grant("agent", true, rules).await?;
    let ann = [("impersonate-user", "ann")];
    let message = "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    wait_until("the agent is refused as ann", WAIT_TIMEOUT, || async {
        let (_, answer) = ask(&robot, Method::GET, "/api/v1/nodes", &Value::Null, &ann).await?;
        Ok((answer["message"] == message).then_some(()))
    })
    .await?;
    let (code, answer) = who(&robot, &ann).await?;
    assert_eq!(code, 403, "{answer}");
    let masters = [
        ("impersonate-user", "ann"),
        ("impersonate-group", "system:masters"),
    ];
    let (code, answer) = ask(&robot, Method::GET, "/api/v1/nodes", &Value::Null, &masters).await?;
    assert_eq!(
        (code, &answer["message"]),
        (
            403,
            &json!(format!(
                "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"{}\" cannot \
                 impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the \
                 cluster scope: impersonating the system:masters group is not allowed",
                fixture.robot_name("agent")
            ))
        )
    );
    Ok(())
}

#[tokio::test]
async fn agent_may_impersonate_its_own_node() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let admin = fixture.cluster.client();
    let node = format!("{}-node", fixture.namespace);
    let pods = format!("/api/v1/namespaces/{}/pods", fixture.namespace);
    let pod = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "agent",
            "containers": [{"name": "c", "image": "i"}],
        },
    });
    let (code, answer) = ask(&admin, Method::POST, &pods, &pod, &[]).await?;
    assert_eq!(code, 201, "{answer}");
    let robot = fixture.robot_in("agent", Some("agent")).await?;
    let reviews = json!(["selfsubjectreviews"]);
    fixture
        .grant(
            "agent",
            true,
            json!([
                {"apiGroups": ["authentication.k8s.io"], "resources": reviews, "verbs": ["impersonate-on:associated-node:create"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:associated-node"]},
            ]),
        )
        .await?;
    let own = format!("system:node:{node}");
    let became = wait_until("the agent becomes its node", WAIT_TIMEOUT, || async {
        let (code, answer) = who(&robot, &[("impersonate-user", &own)]).await?;
        Ok((code == 201).then_some(answer))
    })
    .await?;
    assert_eq!(
        became,
        json!({"username": own, "groups": ["system:nodes", "system:authenticated"]})
    );
    let (code, answer) = who(&robot, &[("impersonate-user", "system:node:other")]).await?;
    assert_eq!(
        (code, answer),
        (
            403,
            json!(format!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"{}\" cannot \
                 impersonate-on:arbitrary-node:create resource \"selfsubjectreviews\" in API group \
                 \"authentication.k8s.io\" at the cluster scope",
                fixture.robot_name("agent")
            ))
        )
    );
    Ok(())
}

#[tokio::test]
async fn escalation_is_rejected() -> anyhow::Result<()> {
    let fixture = RbacFixture::start().await?;
    let robot = fixture.robot("operator").await?;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "get", "update"]},
    ]);
    fixture.grant("operator", false, rules).await?;
    let at = format!("{RBAC}/namespaces/{}", fixture.namespace);
    fixture
        .settles(&robot, &format!("{at}/roles/none"), 404)
        .await?;
    let role = json!({
        "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let (code, answer) = ask(&robot, Method::POST, &format!("{at}/roles"), &role, &[]).await?;
    assert_eq!(code, 403, "{answer}");
    let binding = json!({
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator"}],
    });
    let (code, answer) = ask(
        &robot,
        Method::POST,
        &format!("{at}/rolebindings"),
        &binding,
        &[],
    )
    .await?;
    assert_eq!(code, 403, "{answer}");
    // Neither was written.
    let admin = fixture.cluster.client();
    for path in [format!("{at}/roles/all"), format!("{at}/rolebindings/all")] {
        let (code, _) = ask(&admin, Method::GET, &path, &Value::Null, &[]).await?;
        assert_eq!(code, 404, "{path}");
    }
    Ok(())
}
