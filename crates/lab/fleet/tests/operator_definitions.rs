//! CRDs of third-party operators on an API server: served kinds, validation, defaults.

use fleet::operators::{
    self, DeschedulerRelease, HyperConvergedVersion, Installed, hyperconverged, install,
    kube_descheduler, names, node_health_check,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use runtime::Error;
use serde_json::{Value, json};
use testkit::TestCluster;

fn namespaced(cluster: &TestCluster, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client(), namespace, kind)
}

/// The result of a dry-run create.
async fn attempt(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    name: &str,
    spec: Value,
) -> Result<Value, String> {
    let object = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": { "name": name },
        "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &object)
        .await
        .map(|made| json!(made))
        .map_err(|error| Error::api("create")(error).to_string())
}

/// The schema of a field in a CRD.
async fn schema(cluster: &TestCluster, name: &str, path: &str) -> anyhow::Result<Value> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = json!(api.get(name).await?);
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Ok(schema.pointer(path).cloned().unwrap_or_default())
}

#[tokio::test]
async fn descheduler_profiles_depend_on_the_release() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let kind = kube_descheduler();
    let api = namespaced(&cluster, &kind, names::DESCHEDULER_NAMESPACE);
    // Each release is installed over the previous one, like an upgrade.
    for (vintage, dev, ga, node) in [
        (DeschedulerRelease::V5_10, false, false, false),
        (DeschedulerRelease::V5_14, true, false, false),
        (DeschedulerRelease::V5_21, true, false, false),
        (DeschedulerRelease::V5_32, true, true, true),
        (DeschedulerRelease::Current, false, true, true),
    ] {
        let installed = Installed {
            descheduler: Some(vintage),
            ..Installed::default()
        };
        install(&cluster.client(), &installed).await?;
        let spec = "/properties/spec/properties";
        let definition = "kubedeschedulers.operator.openshift.io";
        let profiles = schema(&cluster, definition, &format!("{spec}/profiles/items/enum")).await?;
        let has = |name: &str| {
            profiles
                .as_array()
                .is_some_and(|all| all.contains(&json!(name)))
        };
        assert!(has("LongLifecycle"), "{vintage:?}");
        assert_eq!(has("DevKubeVirtRelieveAndMigrate"), dev, "{vintage:?}");
        assert_eq!(has("KubeVirtRelieveAndMigrate"), ga, "{vintage:?}");
        let limits = schema(
            &cluster,
            definition,
            &format!("{spec}/evictionLimits/properties"),
        )
        .await?;
        assert!(limits.get("total").is_some(), "{vintage:?}");
        assert_eq!(limits.get("node").is_some(), node, "{vintage:?}");
        let cooldown = schema(
            &cluster,
            definition,
            &format!("{spec}/profileCustomizations/properties/devMigrationCooldown"),
        )
        .await?;
        assert_eq!(
            !cooldown.is_null(),
            vintage == DeschedulerRelease::Current,
            "{vintage:?}"
        );
        let made = attempt(
            &api,
            &kind,
            "cluster",
            json!({ "profiles": ["LongLifecycle"] }),
        )
        .await;
        let made = made.map_err(anyhow::Error::msg)?;
        assert_eq!(made["spec"]["mode"], "Predictive", "{vintage:?}");
        assert_eq!(made["spec"]["logLevel"], "Normal", "{vintage:?}");
    }
    Ok(())
}

#[tokio::test]
async fn conflicting_descheduler_profiles_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let installed = Installed {
        descheduler: Some(DeschedulerRelease::V5_32),
        ..Installed::default()
    };
    install(&cluster.client(), &installed).await?;
    let kind = kube_descheduler();
    let api = namespaced(&cluster, &kind, names::DESCHEDULER_NAMESPACE);
    let ga = "KubeVirtRelieveAndMigrate";
    for profiles in [
        vec![ga],
        vec!["AffinityAndTaints", "SoftTopologyAndDuplicates", ga],
        vec!["LongLifecycle", "EvictPodsWithPVC"],
    ] {
        let made = attempt(&api, &kind, "cluster", json!({ "profiles": profiles })).await;
        made.map_err(anyhow::Error::msg)?;
    }
    for profiles in [
        vec![ga, ga],
        vec![ga, "DevKubeVirtRelieveAndMigrate"],
        vec!["LongLifecycle", ga],
        vec!["DevPreviewLongLifecycle", "DevKubeVirtRelieveAndMigrate"],
        vec!["LifecycleAndUtilization", ga],
        vec!["CompactAndScale", ga],
        vec!["LongLifecycle", "LifecycleAndUtilization"],
        vec!["SoftTopologyAndDuplicates", "TopologyAndDuplicates"],
        vec!["CompactAndScale", "TopologyAndDuplicates"],
        vec!["CompactAndScale", "DevPreviewLongLifecycle"],
        vec!["Unheard"],
    ] {
        let made = attempt(&api, &kind, "cluster", json!({ "profiles": profiles })).await;
        assert!(made.is_err(), "{profiles:?}");
    }
    let other = attempt(&api, &kind, "other", json!({ "profiles": [ga] })).await;
    assert!(other.is_err_and(|why| why.contains("cluster")));
    for wrong in [
        json!({}),
        json!({ "profiles": [ga], "deschedulingIntervalSeconds": 0 }),
        json!({ "profiles": [ga], "mode": "Sometimes" }),
        json!({ "profiles": [ga], "managementState": "Perhaps" }),
    ] {
        let made = attempt(&api, &kind, "cluster", wrong.clone()).await;
        assert!(made.is_err(), "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn hyperconverged_defaults_follow_its_version() -> anyhow::Result<()> {
    for (version, at) in [
        (HyperConvergedVersion::V1, "/spec/virtualization"),
        (HyperConvergedVersion::V1Beta1, "/spec"),
    ] {
        let images = match version {
            HyperConvergedVersion::V1 => "/spec/workloadSources",
            HyperConvergedVersion::V1Beta1 => "/spec",
        };
        let cluster = TestCluster::start().await?;
        let installed = Installed {
            hyperconverged: Some(version),
            ..Installed::default()
        };
        install(&cluster.client(), &installed).await?;
        let api = namespaced(
            &cluster,
            &hyperconverged(version),
            names::VIRTUALIZATION_NAMESPACE,
        );
        let object = json!(api.get(names::HYPERCONVERGED).await?);
        let images = object.pointer(images).cloned().unwrap_or_default();
        assert_eq!(images["enableCommonBootImageImport"], true, "{version:?}");
        let mut fields = object.pointer(at).cloned().unwrap_or_default();
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("enableCommonBootImageImport");
        }
        assert_eq!(
            fields,
            json!({
                "liveMigrationConfig": {
                    "allowAutoConverge": false,
                    "allowPostCopy": false,
                    "allowWorkloadDisruption": false,
                    "completionTimeoutPerGiB": 20,
                    "parallelMigrationsPerCluster": 5,
                    "parallelOutboundMigrationsPerNode": 1,
                    "progressTimeout": 150,
                },
                "higherWorkloadDensity": { "memoryOvercommitPercentage": 100 },
            }),
            "{version:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn health_check_needs_one_threshold_and_one_remediation() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let installed = Installed {
        node_health: true,
        ..Installed::default()
    };
    install(&cluster.client(), &installed).await?;
    let kind = node_health_check();
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let template = json!({
        "apiVersion": "fence-agents-remediation.medik8s.io/v1alpha1",
        "kind": "FenceAgentsRemediationTemplate",
        "name": "fenceagentsremediationtemplate-default",
        "namespace": names::AVAILABILITY_NAMESPACE,
    });
    let good = json!({ "selector": {}, "minHealthy": "51%", "remediationTemplate": template });
    let made = attempt(&api, &kind, "far", good.clone()).await;
    let made = made.map_err(anyhow::Error::msg)?;
    assert_eq!(made["spec"]["unhealthyConditions"][0]["duration"], "300s");
    let both = json!({
        "selector": {}, "minHealthy": 1, "maxUnhealthy": 1, "remediationTemplate": template,
    });
    let no_remedy = json!({ "selector": {}, "minHealthy": 1 });
    let nonsense = json!({ "selector": {}, "minHealthy": "most", "remediationTemplate": template });
    for wrong in [both, no_remedy, nonsense] {
        let made = attempt(&api, &kind, "far", wrong.clone()).await;
        assert!(made.is_err(), "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn second_install_changes_nothing() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let pools: Api<operators::MachineConfigPool> = Api::all(client.clone());
    let installed = Installed::demo();
    install(&client, &installed).await?;

    // Changes by users are kept.
    let paused = Patch::Merge(json!({ "spec": { "paused": true } }));
    pools
        .patch("worker", &PatchParams::default(), &paused)
        .await?;
    let revisions = async || {
        let all = definitions.list(&ListParams::default()).await?;
        let all = all.items.into_iter().map(|one| one.metadata);
        let one = pools.get("worker").await?;
        let all = all.chain([one.metadata]).map(|meta| meta.resource_version);
        anyhow::Ok(all.collect::<Vec<_>>())
    };
    let before = revisions().await?;
    assert_eq!(before.len(), 24);
    install(&client, &installed).await?;
    assert_eq!(revisions().await?, before);
    assert!(pools.get("worker").await?.spec.paused);
    Ok(())
}

#[tokio::test]
async fn foreign_crds_are_left_alone() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let installed = Installed {
        descheduler: Some(DeschedulerRelease::V5_14),
        hyperconverged: Some(HyperConvergedVersion::V1Beta1),
        ..Installed::default()
    };
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut theirs in operators::definitions(&installed)? {
        theirs.metadata.annotations = None;
        api.create(&PostParams::default(), &theirs).await?;
    }
    install(&client, &Installed::demo()).await?;
    let profiles = schema(
        &cluster,
        "kubedeschedulers.operator.openshift.io",
        "/properties/spec/properties/profiles/items/enum",
    )
    .await?;
    assert!(profiles.to_string().contains("DevKubeVirt"), "{profiles}");
    let definition = api.get("hyperconvergeds.hco.kubevirt.io").await?;
    assert_eq!(definition.spec.versions[0].name, "v1beta1");
    Ok(())
}
