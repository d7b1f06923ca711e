//! Namespace lifecycle and aggregated cluster roles, on both servers.

mod controlled;

use anyhow::Context as _;
use controlled::{ControlledCluster, create, delete, gone, patch, present, release, until};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

const KEEP: &str = "example.com/keep";
const ROOT_CA: &str = "kube-root-ca.crt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_roles() -> anyhow::Result<()> {
    let fixture = &ControlledCluster::start().await?;
    fixture
        .run(cases![fixture;
            every_namespace_gets_a_default_service_account,
            every_namespace_gets_the_root_ca,
            empty_namespace_is_deleted,
            namespace_contents_are_deleted,
            finalizer_blocks_deletion_and_is_reported,
            pods_are_deleted_before_other_objects,
            custom_finalizer_keeps_the_namespace,
            pod_gets_a_service_account_and_its_token,
            pod_with_a_missing_service_account_is_rejected,
            cluster_role_is_aggregated,
        ])
        .await
}

fn namespaces(fixture: &ControlledCluster) -> Api<Namespace> {
    Api::all(fixture.cluster.client())
}

async fn every_namespace_gets_a_default_service_account(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let namespace = fixture.cluster.namespace("account").await?;
    let accounts: Api<ServiceAccount> = fixture.api(&namespace);
    let first = present(&accounts, "default").await?;
    assert_eq!(first.image_pull_secrets, None);
    delete(&accounts, "default", &DeleteParams::default()).await?;
    until(&accounts, "default", "is there again", |account| {
        account.uid() != first.uid()
    })
    .await?;
    Ok(())
}

async fn every_namespace_gets_the_root_ca(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let namespace = fixture.cluster.namespace("certificate").await?;
    let maps: Api<ConfigMap> = fixture.api(&namespace);
    let expected = Some([("ca.crt".to_owned(), fixture.cluster.root_ca().to_owned())].into());
    let map = present(&maps, ROOT_CA).await?;
    assert_eq!(map.data, expected);
    assert_eq!(
        map.annotations()
            .get("kubernetes.io/description")
            .map(String::as_str),
        Some(
            "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
             endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
             guaranteed across distributions of Kubernetes clusters."
        )
    );

    let meddled = json!({"data": {"ca.crt": "mine", "more": "of it"}});
    patch(&maps, ROOT_CA, meddled).await?;
    until(&maps, ROOT_CA, "is repaired", |map| map.data == expected).await?;
    let undescribed = json!({"metadata": {"annotations": null}});
    patch(&maps, ROOT_CA, undescribed).await?;
    until(&maps, ROOT_CA, "is described again", |map| {
        !map.annotations().is_empty()
    })
    .await?;
    delete(&maps, ROOT_CA, &DeleteParams::default()).await?;
    until(&maps, ROOT_CA, "is there again", |new| {
        new.uid() != map.uid()
    })
    .await?;
    Ok(())
}

async fn empty_namespace_is_deleted(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let api = namespaces(fixture);
    let namespace = fixture.cluster.namespace("empty").await?;
    let accounts: Api<ServiceAccount> = fixture.api(&namespace);
    present(&accounts, "default").await?;
    let first = api.get(&namespace).await?;
    delete(&api, &namespace, &DeleteParams::default()).await?;
    gone(&api, &namespace).await?;

    // A new namespace of the same name starts empty.
    let second = create(&api, json!({"metadata": {"name": namespace}})).await?;
    assert_ne!(second.uid(), first.uid());
    present(&accounts, "default").await?;
    let maps: Api<ConfigMap> = fixture.api(&namespace);
    present(&maps, ROOT_CA).await?;
    Ok(())
}

fn pod(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    })
}

async fn namespace_contents_are_deleted(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let namespace = fixture.cluster.namespace("full").await?;
    let accounts: Api<ServiceAccount> = fixture.api(&namespace);
    present(&accounts, "default").await?;
    let kites = fixture.kites("namespaces.example.com", &namespace).await?;
    let kite = json!({
        "apiVersion": "namespaces.example.com/v1",
        "kind": "Kite",
        "metadata": {"name": "kite"},
    });
    create(&kites, kite).await?;
    let pods: Api<Pod> = fixture.api(&namespace);
    create(&pods, pod("pod", &[])).await?;
    let secrets: Api<Secret> = fixture.api(&namespace);
    for index in 0..5 {
        let secret = json!({"metadata": {"name": format!("s{index}")}});
        create(&secrets, secret).await?;
    }
    let api = namespaces(fixture);
    delete(&api, &namespace, &DeleteParams::default()).await?;
    gone(&api, &namespace).await?;
    assert_eq!(secrets.list(&ListParams::default()).await?.items.len(), 0);
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 0);
    assert_eq!(kites.list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}

/// The conditions: type, status, reason, message.
fn conditions(namespace: &Namespace) -> Vec<[String; 4]> {
    let status = namespace.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .map(|condition| {
            [
                condition.type_.clone(),
                condition.status.clone(),
                condition.reason.clone().unwrap_or_default(),
                condition.message.clone().unwrap_or_default(),
            ]
        })
        .collect()
}

async fn finalizer_blocks_deletion_and_is_reported(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let api = namespaces(fixture);
    let namespace = fixture.cluster.namespace("held").await?;
    let maps: Api<ConfigMap> = fixture.api(&namespace);
    present(&maps, ROOT_CA).await?;
    for name in ["one", "two"] {
        create(
            &maps,
            json!({"metadata": {"name": name, "finalizers": [KEEP]}}),
        )
        .await?;
    }
    create(&maps, json!({"metadata": {"name": "free"}})).await?;
    delete(&api, &namespace, &DeleteParams::default()).await?;
    let held = until(
        &api,
        &namespace,
        "remaining objects are reported",
        |namespace| conditions(namespace).iter().any(|one| one[1] == "True"),
    )
    .await?;
    let expected = [
        [
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ],
        [
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ],
        [
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ],
        [
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances",
        ],
        [
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/keep in 2 resource instances",
        ],
    ];
    assert_eq!(conditions(&held), expected);
    let status = held.status.unwrap_or_default();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    anyhow::ensure!(maps.get_opt("free").await?.is_none(), "what can go goes");

    // A terminating namespace rejects new objects.
    let late = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some("late".into()),
            ..Default::default()
        },
        ..ConfigMap::default()
    };
    let refused = maps.create(&PostParams::default(), &late).await;
    let error = refused
        .err()
        .context("a namespace that ends takes nothing")?;
    assert_eq!(
        error.to_string().split(": ").nth(1),
        Some("configmaps \"late\" is forbidden"),
        "{error}"
    );

    release(&maps, "one").await?;
    until(&api, &namespace, "counts one less", |namespace| {
        conditions(namespace)
            .iter()
            .any(|one| one[3].ends_with("example.com/keep in 1 resource instances"))
    })
    .await?;
    release(&maps, "two").await?;
    gone(&api, &namespace).await
}

async fn pods_are_deleted_before_other_objects(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let api = namespaces(fixture);
    let namespace = fixture.cluster.namespace("pods").await?;
    let accounts: Api<ServiceAccount> = fixture.api(&namespace);
    present(&accounts, "default").await?;
    let maps: Api<ConfigMap> = fixture.api(&namespace);
    let pods: Api<Pod> = fixture.api(&namespace);
    create(&maps, json!({"metadata": {"name": "needed"}})).await?;
    create(&pods, pod("pod", &[KEEP])).await?;
    delete(&api, &namespace, &DeleteParams::default()).await?;
    until(&pods, "pod", "is on its way out", |pod| {
        pod.metadata.deletion_timestamp.is_some()
    })
    .await?;
    // While pods remain, they are not counted in the conditions.
    let waiting = until(&api, &namespace, "has conditions", |namespace| {
        !conditions(namespace).is_empty()
    })
    .await?;
    let statuses: Vec<String> = conditions(&waiting)
        .into_iter()
        .map(|[_, is, ..]| is)
        .collect();
    assert_eq!(statuses, ["False"; 5]);
    maps.get("needed").await.context("pods need it")?;
    release(&pods, "pod").await?;
    gone(&api, &namespace).await
}

async fn custom_finalizer_keeps_the_namespace(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let api = namespaces(fixture);
    let namespace = json!({
        "metadata": {"generateName": "foreign-"},
        "spec": {"finalizers": [KEEP]},
    });
    let name = create(&api, namespace).await?.name_any();
    let finalizers = |namespace: &Namespace| {
        let spec = namespace.spec.clone().unwrap_or_default();
        spec.finalizers.unwrap_or_default()
    };
    let maps: Api<ConfigMap> = fixture.api(&name);
    create(&maps, json!({"metadata": {"name": "map"}})).await?;
    delete(&api, &name, &DeleteParams::default()).await?;
    let mut left = until(&api, &name, "has only the foreign finalizer", |namespace| {
        finalizers(namespace) == [KEEP]
    })
    .await?;
    anyhow::ensure!(maps.get_opt("map").await?.is_none(), "it is empty");
    left.spec = None;
    api.replace_subresource("finalize", &name, &PostParams::default(), &left)
        .await
        .context("finalizing")?;
    gone(&api, &name).await
}

async fn pod_gets_a_service_account_and_its_token(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let namespace = fixture.cluster.namespace("token").await?;
    let pods: Api<Pod> = fixture.api(&namespace);
    // The service account may be created after this: the server waits for it.
    let created = create(&pods, pod("pod", &[])).await?;
    let spec = serde_json::to_value(created.spec)?;
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let name = spec["volumes"][0]["name"].as_str().unwrap_or_default();
    anyhow::ensure!(name.starts_with("kube-api-access-"), "{spec}");
    assert_eq!(
        spec["volumes"],
        json!([{
            "name": name,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }},
                    {"downwardAPI": {"items": [{
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }]}},
                ],
            },
        }])
    );
    let mount = json!({
        "name": name,
        "readOnly": true,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    });
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));

    let accounts: Api<ServiceAccount> = fixture.api(&namespace);
    let robot = json!({
        "metadata": {"name": "robot"},
        "automountServiceAccountToken": false,
        "imagePullSecrets": [{"name": "registry"}],
    });
    create(&accounts, robot).await?;
    let mut own = pod("own", &[]);
    own["spec"]["serviceAccountName"] = json!("robot");
    let spec = serde_json::to_value(create(&pods, own).await?.spec)?;
    assert_eq!(spec["volumes"], Value::Null);
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    Ok(())
}

async fn pod_with_a_missing_service_account_is_rejected(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let namespace = fixture.cluster.namespace("nobody").await?;
    let pods: Api<Pod> = fixture.api(&namespace);
    let mut nobodys = pod("pod", &[]);
    nobodys["spec"]["serviceAccountName"] = json!("nobody");
    let nobodys = serde_json::from_value(nobodys)?;
    match pods.create(&PostParams::default(), &nobodys).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403);
            assert_eq!(
                status.message,
                format!(
                    "pods \"pod\" is forbidden: error looking up service account \
                     {namespace}/nobody: serviceaccount \"nobody\" not found"
                )
            );
            Ok(())
        }
        other => anyhow::bail!("a pod needs an account: {other:?}"),
    }
}

async fn cluster_role_is_aggregated(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let api: Api<ClusterRole> = Api::all(fixture.cluster.client());
    let part = |name: &str, verb: &str| {
        json!({
            "metadata": {"name": name, "labels": {"example.com/to": "aggregate"}},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": [verb]},
                {"nonResourceURLs": ["/shared"], "verbs": ["get"]},
            ],
        })
    };
    let aggregate = json!({
        "metadata": {"name": "aggregate", "labels": {"example.com/to": "aggregate"}},
        "aggregationRule": {
            "clusterRoleSelectors": [{"matchLabels": {"example.com/to": "aggregate"}}],
        },
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["impersonate"]}],
    });
    create(&api, part("part-b", "list")).await?;
    create(&api, aggregate).await?;
    let verbs = |role: &ClusterRole| -> Vec<String> {
        let rules = role.rules.iter().flatten();
        rules.flat_map(|rule| rule.verbs.clone()).collect()
    };
    let made = until(&api, "aggregate", "is made of its part", |role| {
        verbs(role) == ["list", "get"]
    })
    .await?;
    let managers: Vec<String> = made
        .managed_fields()
        .iter()
        .filter(|entry| entry.operation.as_deref() == Some("Apply"))
        .filter_map(|entry| entry.manager.clone())
        .collect();
    assert_eq!(managers, ["clusterrole-aggregation-controller"]);

    create(&api, part("part-a", "watch")).await?;
    until(&api, "aggregate", "has each rule once, by name", |role| {
        verbs(role) == ["watch", "get", "list"]
    })
    .await?;
    for name in ["part-a", "part-b"] {
        delete(&api, name, &DeleteParams::default()).await?;
    }
    until(&api, "aggregate", "is made of nothing", |role| {
        verbs(role).is_empty()
    })
    .await?;
    Ok(())
}
