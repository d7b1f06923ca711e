use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::auth::attributes::Resource;
use crate::store::{Expect, Write};

async fn put(store: &Store, key: &str, object: Value) {
    let content = move |_| Bytes::from(object.to_string());
    store
        .write(Write::put(key, Expect::Any, content))
        .await
        .unwrap();
}

async fn remove(store: &Store, key: &str) {
    let last = store.get(key).unwrap().value.clone();
    store
        .write(Write::delete(key, Expect::Any, move |_| last))
        .await
        .unwrap();
}

async fn put_role(store: &Store) {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let role = json!({"metadata": {"name": "read"}, "rules": rules});
    put(store, "/registry/clusterroles/read", role).await;
}

async fn put_binding(store: &Store, name: &str, user: &str) {
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": "read"},
        "subjects": [{"kind": "User", "name": user}],
    });
    put(
        store,
        &format!("/registry/clusterrolebindings/{name}"),
        binding,
    )
    .await;
}

fn may_read(authorizer: &Authorizer, user: &str) -> bool {
    let pods = Resource {
        plural: "pods",
        namespace: "d",
        ..Resource::default()
    };
    let user = UserInfo::known(user, &[]);
    authorizer
        .authorize(&user, &Attributes::on("get", pods))
        .allowed
}

#[tokio::test]
async fn existing_bindings_are_effective_from_the_start() {
    let store = Store::memory();
    put_role(&store).await;
    put_binding(&store, "a", "ann").await;
    let authorizer = Authorizer::new(&store).unwrap();
    assert!(may_read(&authorizer, "ann"));
    assert!(!may_read(&authorizer, "bob"));
}

#[tokio::test]
async fn write_is_effective_for_the_next_request() {
    let store = Store::memory();
    let authorizer = Authorizer::new(&store).unwrap();
    for _ in 0..100 {
        assert!(!may_read(&authorizer, "ann"));
        put_role(&store).await;
        put_binding(&store, "a", "ann").await;
        assert!(may_read(&authorizer, "ann"));
        remove(&store, "/registry/clusterrolebindings/a").await;
        assert!(!may_read(&authorizer, "ann"));
        put_binding(&store, "a", "ann").await;
        assert!(may_read(&authorizer, "ann"));
        remove(&store, "/registry/clusterroles/read").await;
        assert!(!may_read(&authorizer, "ann"));
        remove(&store, "/registry/clusterrolebindings/a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn write_on_disk_is_effective_for_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let options = crate::store::Options::default();
    let store = Store::open(folder.path().join("store"), options).unwrap();
    let authorizer = Authorizer::new(&store).unwrap();
    put_role(&store).await;
    let asked = (0..50).map(async |number| {
        let user = format!("user-{number}");
        assert!(!may_read(&authorizer, &user));
        put_binding(&store, &user, &user).await;
        assert!(may_read(&authorizer, &user));
    });
    futures::future::join_all(asked).await;
}

#[tokio::test]
async fn compacted_history_causes_a_full_reload() {
    let store = Store::memory();
    let authorizer = Authorizer::new(&store).unwrap();
    put_role(&store).await;
    put_binding(&store, "a", "ann").await;
    put_binding(&store, "b", "bob").await;
    remove(&store, "/registry/clusterrolebindings/a").await;
    store.compact(store.revision()).await.unwrap();
    assert!(!may_read(&authorizer, "ann"));
    assert!(may_read(&authorizer, "bob"));
    put_binding(&store, "a", "ann").await;
    assert!(may_read(&authorizer, "ann"));
}

#[tokio::test]
async fn masters_need_no_roles() {
    let authorizer = Authorizer::new(&Store::memory()).unwrap();
    let everything = Attributes::on("eat", Resource::default());
    let decision = authorizer.authorize(&UserInfo::admin(), &everything);
    assert_eq!((decision.allowed, decision.reason.as_str()), (true, ""));
}
