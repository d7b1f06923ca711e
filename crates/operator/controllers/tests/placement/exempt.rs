//! Namespaces whose pods the API server does not even send.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use testkit::wait_until;

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, pod};

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_exempt_namespaces_do_not_depend_on_the_webhook() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let exempt = [
        "kube-flannel",
        "openshift-dns",
        "openshift",
        "hypershift",
        "calico-system",
        "cattle-fleet",
    ];
    let other = ["openshiftish", "cattle"];
    for name in exempt.iter().chain(&other) {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        let namespaces: Api<Namespace> = Api::all(stage.client());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        stage.account(name).await?;
    }
    // With `Fail` and without a webhook, exactly the pods that are not sent can be created.
    let spec = json!({
        "failurePolicy": "Fail", "exemptNamespaces": ["calico-system", "cattle-*"],
    });
    stage.policy("default", spec).await?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.client());
    testkit::until(
        &registrations,
        "medley-placement",
        "is registered again",
        WAIT_TIMEOUT,
        |it| {
            let text = json!(it.webhooks).to_string();
            text.contains("calico-system") && text.contains("startsWith('cattle-')")
        },
    )
    .await?;
    let create = async |namespace: &str, name: &str| {
        let pods: Api<Pod> = Api::namespaced(stage.client(), namespace);
        let pod = serde_json::from_value(pod(name, &images.push_unknown(name)?, &json!({})))?;
        anyhow::Ok(pods.create(&PostParams::default(), &pod).await)
    };
    // While the webhook answers, they are not gated either.
    for namespace in exempt {
        let made = create(namespace, "before").await??;
        assert!(gates(&made).is_empty(), "{namespace}");
    }
    stage.stop_webhook().await;
    for namespace in other {
        wait_until("pods are refused", WAIT_TIMEOUT, async || {
            Ok(create(namespace, "refused").await?.is_err().then_some(()))
        })
        .await?;
    }
    for namespace in exempt {
        create(namespace, "after").await??;
    }
    stage.end().await;
    Ok(())
}
