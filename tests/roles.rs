//! Viewers, editors and approvers can read and change exactly what their roles allow, on every path: the API, the
//! command line and the console.
#![expect(clippy::panic, reason = "test helpers may panic like tests")]

#[path = "roles_people.rs"]
mod people;
#[path = "../crates/interfaces/console/tests/http/world.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod world;

use api::advisor::{Action, VirtPlatformConfig, names};
use fleet::operators::{self, Installed};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{has, wait_until};

use people::{
    ALL, AccessVerdict as _, Person, Role, Situation, assert_unchanged, image, patch, remember,
};
use world::{ConsoleFixture, NAME, NAMESPACE, PLAN, WAIT_TIMEOUT};

/// No operator of Medley is running: permissions are those of the API server and of the webhook.
const ALONE: &str = "--without-controller";
/// Roles that may prepare a plan.
const EDITORS: &[Role] = &[Role::Editor, Role::Approver];
/// Roles that may approve a plan.
const APPROVERS: &[Role] = &[Role::Approver];

/// A change that users make to a configuration.
struct Operation {
    what: &'static str,
    on: Situation,
    /// Roles that may make it.
    may: &'static [Role],
    /// The patch of the object.
    raw: Value,
    /// The equivalent command, if there is one.
    command: &'static [&'static str],
    /// The equivalent console form and its fields, if there is one.
    form: Option<(&'static str, &'static [(&'static str, &'static str)])>,
    /// Whether the object has the change.
    done: fn(&VirtPlatformConfig) -> bool,
}

fn operations() -> Vec<Operation> {
    const NONE: &[(&str, &str)] = &[];
    vec![
        Operation {
            what: "have a plan made",
            on: Situation::Ignored,
            may: EDITORS,
            raw: json!({ "spec": { "action": "DryRun" } }),
            command: &["plan", NAME, "--renew", ALONE],
            form: Some(("plan", NONE)),
            done: |it| it.spec.action == Action::DryRun,
        },
        Operation {
            what: "approve",
            on: Situation::Review,
            may: APPROVERS,
            raw: json!({ "spec": { "action": "Apply", "approval": { "planDigest": PLAN } } }),
            command: &["approve", NAME, "--yes", ALONE],
            form: Some(("approve", &[("digest", PLAN), ("item", "enable-metrics")])),
            done: |it| it.spec.action == Action::Apply,
        },
        Operation {
            what: "reject",
            on: Situation::Review,
            may: APPROVERS,
            raw: json!({ "spec": { "approval": { "rejected": { "planDigest": PLAN } } } }),
            command: &["reject", NAME, "--reason", "not now", ALONE],
            form: Some(("reject", &[("digest", PLAN), ("reason", "not now")])),
            done: |it| {
                let approval = it.spec.approval.as_ref();
                approval.is_some_and(|it| it.rejected.is_some())
            },
        },
        Operation {
            what: "ignore",
            on: Situation::Review,
            may: EDITORS,
            raw: json!({ "spec": { "action": "Ignore" } }),
            command: &[],
            form: Some(("ignore", NONE)),
            done: |it| it.spec.action == Action::Ignore,
        },
        Operation {
            what: "edit options",
            on: Situation::Review,
            may: EDITORS,
            raw: json!({ "spec": { "options": { "loadAware": { "enablePSIMetrics": false } } } }),
            command: &[],
            form: None,
            done: |it| it.spec.options.is_some(),
        },
        Operation {
            what: "edit options that are applied",
            on: Situation::InForce,
            may: APPROVERS,
            raw: json!({ "spec": { "options": { "loadAware": { "enablePSIMetrics": false } } } }),
            command: &[],
            form: None,
            done: |it| it.spec.options.is_some(),
        },
        Operation {
            what: "turn locks off",
            on: Situation::Review,
            may: APPROVERS,
            raw: json!({ "spec": { "bypassOptimisticLock": true } }),
            command: &[],
            form: None,
            done: |it| it.spec.bypass_optimistic_lock,
        },
        Operation {
            what: "say who has to approve",
            on: Situation::Review,
            may: APPROVERS,
            raw: json!({ "spec": { "approvalPolicy": { "requiredApprovals": { "high": 2 } } } }),
            command: &[],
            form: None,
            done: |it| it.spec.approval_policy.is_some(),
        },
        Operation {
            what: "stop",
            on: Situation::InForce,
            may: EDITORS,
            raw: json!({ "spec": { "action": "DryRun" } }),
            command: &[],
            form: None,
            done: |it| it.spec.action == Action::DryRun,
        },
        Operation {
            what: "adopt what drifted",
            on: Situation::InForce,
            may: APPROVERS,
            raw: json!({ "spec": { "options": { "loadAware": { "deschedulingIntervalSeconds": 120 } } } }),
            command: &["adopt", NAME, "--yes", ALONE],
            form: Some(("adopt", NONE)),
            done: |it| it.spec.options.is_some(),
        },
        Operation {
            what: "ask for a rollback",
            on: Situation::InForce,
            may: EDITORS,
            raw: json!({ "spec": { "rollbackTo": 1, "action": "DryRun", "approval": null } }),
            command: &["rollback", NAME, "--yes", ALONE],
            form: Some(("roll-back", &[("revision", "1")])),
            done: |it| it.spec.rollback_to == Some(1) && it.spec.approval.is_none(),
        },
        Operation {
            what: "go forward again",
            on: Situation::GoingBack,
            may: EDITORS,
            raw: json!({ "spec": { "rollbackTo": null } }),
            command: &["rollback", NAME, "--clear", ALONE],
            form: Some(("go-forward", NONE)),
            done: |it| it.spec.rollback_to.is_none(),
        },
    ]
}

/// Asserts that a change was made if the role permits it, and left no trace otherwise.
async fn assert_access(
    world: &ConsoleFixture,
    before: &VirtPlatformConfig,
    deed: &Operation,
    may: bool,
    how: &str,
) -> anyhow::Result<()> {
    let now = world.configs().get(NAME).await?;
    if may {
        assert!((deed.done)(&now), "{how}: {now:?}");
        deed.on.set(world).await?;
    } else {
        assert_unchanged(before, &now, how);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_changed_by_permitted_roles_only() -> anyhow::Result<()> {
    let world = ConsoleFixture::start().await?;
    remember(&world).await?;
    let mut people = Person::all(&world).await?;
    let page = format!("/governance/{NAME}");
    for deed in operations() {
        deed.on.set(&world).await?;
        for person in &mut people {
            let may = deed.may.contains(&person.role);
            let what = format!("{:?}: {}", person.role, deed.what);

            let before = world.configs().get(NAME).await?;
            let how = format!("{what}, by the API");
            let outcome = patch(person, &deed.raw).await;
            assert_eq!(outcome.is_allowed(), may, "{how}");
            assert_access(&world, &before, &deed, may, &how).await?;

            if !deed.command.is_empty() {
                let before = world.configs().get(NAME).await?;
                let how = format!("{what}, with the command line");
                let result = person.run(deed.command).await?;
                // The diff of a plan is shown to users who can read its targets.
                if deed.command[0] != "plan" {
                    assert_eq!(result.is_allowed(), may, "{how}: {result:?}");
                }
                assert_access(&world, &before, &deed, may, &how).await?;
            }

            if let Some((form, fields)) = deed.form {
                let before = world.configs().get(NAME).await?;
                let how = format!("{what}, in the console");
                let path = format!("{page}/{form}");
                let offer = format!("action=\"{path}\"");
                person.until(&page, &offer, may).await?;
                let answer = person.browser.submit(&path, fields).await?;
                assert_eq!(answer.is_allowed(), may, "{how}: {answer:?}");
                assert_access(&world, &before, &deed, may, &how).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_approvals_cannot_be_forged() -> anyhow::Result<()> {
    let world = ConsoleFixture::start().await?;
    let people = Person::all(&world).await?;
    for person in &people {
        let before = Situation::Review.set(&world).await?;
        let configs: Api<VirtPlatformConfig> = Api::all(person.client.clone());
        let status = Patch::Merge(json!({ "status": { "phase": "Completed" } }));
        let written = configs
            .patch_status(NAME, &PatchParams::default(), &status)
            .await;
        assert!(!written.is_allowed(), "{:?}", person.role);
        // A forged approval record is reverted.
        let forged =
            json!([{ "user": "alice", "digest": PLAN, "at": "2026-01-01T00:00:00Z" }]).to_string();
        let annotations = json!({ names::APPROVALS: forged, names::AUTHORS: r#"["alice"]"# });
        let forged = json!({ "metadata": { "annotations": annotations } });
        let written = patch(person, &forged).await;
        assert_eq!(written.is_allowed(), EDITORS.contains(&person.role));
        let now = world.configs().get(NAME).await?;
        for name in [names::APPROVALS, names::AUTHORS] {
            let (was, is) = (before.annotations().get(name), now.annotations().get(name));
            assert_eq!(was, is, "{:?}: {name}", person.role);
        }
        // Nor does the approve annotation of a user without the verb count.
        let asked = json!({ "metadata": { "annotations": { names::APPROVE: PLAN } } });
        let asked = patch(person, &asked).await;
        let may = APPROVERS.contains(&person.role);
        assert_eq!(asked.is_allowed(), may, "{:?}", person.role);
        let now = world.configs().get(NAME).await?;
        let recorded = now.annotations().get(names::APPROVALS);
        assert_eq!(recorded.is_some(), may, "{:?}: {recorded:?}", person.role);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn editors_create_and_delete_configurations_and_viewers_read_them() -> anyhow::Result<()> {
    let world = ConsoleFixture::start().await?;
    remember(&world).await?;
    let mut people = Person::all(&world).await?;
    for person in &mut people {
        let role = person.role;
        Situation::Review.set(&world).await?;
        let configs: Api<VirtPlatformConfig> = Api::all(person.client.clone());
        let sees = role != Role::Stranger;
        let list = configs.list(&ListParams::default()).await;
        assert_eq!(list.is_allowed(), sees, "{role:?}");
        let result = person.run(&["explain", NAME]).await?;
        assert_eq!(result.is_allowed(), sees, "{role:?}: {result:?}");
        let path = format!("/governance/{NAME}");
        let shown = person.browser.get(&path).await?;
        assert_eq!(shown.is_allowed(), sees, "{role:?}");
        let line = person.browser.page("/governance").await?;
        assert_eq!(line.contains(NAME), sees, "{role:?}: {line}");

        let history: Api<ControllerRevision> = Api::namespaced(person.client.clone(), NAMESPACE);
        let list = history.list(&ListParams::default()).await;
        assert_eq!(list.is_allowed(), sees, "{role:?}");
        let result = person.run(&["history", NAME]).await?;
        assert_eq!(result.is_allowed(), sees, "{role:?}: {result:?}");
        let revision = person.browser.get(&format!("{path}/history/1")).await?;
        assert_eq!(revision.is_allowed(), sees, "{role:?}");
        if sees {
            let listed = format!("{path}/history/1\"");
            has(&shown.body, &[&listed, "Waits for review"]);
        } else {
            has(&line, &["Your account may not read virtplatformconfigs"]);
        }

        let deleted = configs.delete(NAME, &DeleteParams::default()).await;
        let may = EDITORS.contains(&role);
        assert_eq!(deleted.is_allowed(), may, "{role:?}");
        if may {
            let spec = json!({ "profile": NAME, "action": "DryRun" });
            let new = VirtPlatformConfig::new(NAME, serde_json::from_value(spec)?);
            configs.create(&PostParams::default(), &new).await?;
        }
        let spec = json!({ "profile": "example-profile", "action": "Apply" });
        let new = VirtPlatformConfig::new("example-profile", serde_json::from_value(spec)?);
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = configs.create(&dry_run, &new).await;
        // Creating a configuration with `action: Apply` approves it, so it needs the verb.
        let may = APPROVERS.contains(&role);
        assert_eq!(made.is_allowed(), may, "{role:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_are_changed_by_editors() -> anyhow::Result<()> {
    let world = ConsoleFixture::start().await?;
    let people = Person::all(&world).await?;
    let params = PostParams::default();
    for kind in [
        "GoldenImagePolicy",
        "CpuModelPolicy",
        "PlacementPolicy",
        "ReleasePolicy",
    ] {
        let of = GroupVersionKind::gvk("medley.dev", "v1alpha1", kind);
        let plural = format!("{}ies", kind.to_lowercase().trim_end_matches('y'));
        let resource = ApiResource::from_gvk_with_plural(&of, &plural);
        let new: DynamicObject = serde_json::from_value(json!({
            "apiVersion": resource.api_version, "kind": kind,
            "metadata": { "name": "default" }, "spec": {},
        }))?;
        let admin: Api<DynamicObject> = Api::all_with(world.cluster.client(), &resource);
        for person in &people {
            let api: Api<DynamicObject> = Api::all_with(person.client.clone(), &resource);
            let what = format!("{:?}: {kind}", person.role);
            let may = person.role == Role::Editor;
            let made = api.create(&params, &new).await;
            assert_eq!(made.is_allowed(), may, "{what}");
            if !may {
                admin.create(&params, &new).await?;
            }
            let read = api.get("default").await;
            assert_eq!(read.is_allowed(), person.role != Role::Stranger, "{what}");
            let note = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
            let patched = api.patch("default", &PatchParams::default(), &note).await;
            assert_eq!(patched.is_allowed(), may, "{what}");
            let gone = api.delete("default", &DeleteParams::default()).await;
            assert_eq!(gone.is_allowed(), may, "{what}");
            if !may {
                admin.delete("default", &DeleteParams::default()).await?;
            }
            wait_until("the policy is gone", WAIT_TIMEOUT, async || {
                Ok(admin.get_opt("default").await?.is_none().then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pinned_by_editors_and_refreshed_by_cdi_roles() -> anyhow::Result<()> {
    const HOME: &str = "kubevirt-os-images";
    let world = ConsoleFixture::start().await?;
    let admin = world.cluster.client();
    let installed = Installed {
        cdi: true,
        ..Installed::default()
    };
    operators::install(&admin, &installed).await?;
    image(&admin, HOME).await?;
    let mut people = Person::all(&world).await?;
    let policies: Api<api::golden::GoldenImagePolicy> = Api::all(admin);
    let page = format!("/images/{HOME}/fedora");
    for person in &mut people {
        let role = person.role;
        let (sees, may) = (role != Role::Stranger, role == Role::Editor);
        let result = person.run(&["images"]).await?;
        assert_eq!(result.is_allowed(), sees, "{role:?}: {result:?}");
        let shown = person.browser.get(&page).await?;
        assert_eq!(shown.is_allowed(), sees, "{role:?}: {shown:?}");
        let offered = shown.body.contains(&format!("action=\"{page}/pin\""));
        assert_eq!(offered, may, "{role:?}: {}", shown.body);

        let digest = format!("sha256:{}", "a".repeat(64));
        let pin = ["images", "pin", "fedora-amd64", "--digest", &digest, ALONE];
        let result = person.run(&pin).await?;
        assert_eq!(result.is_allowed(), may, "{role:?}: {result:?}");
        let pinned = policies.get_opt("default").await?;
        assert_eq!(pinned.is_some(), may, "{role:?}: {pinned:?}");
        let fields = [("source", "fedora-amd64"), ("digest", digest.as_str())];
        if may {
            let offer = format!("action=\"{page}/unpin\"");
            person.until(&page, &offer, true).await?;
            let answer = person
                .browser
                .submit(&format!("{page}/unpin"), &fields)
                .await?;
            assert!(answer.is_allowed(), "{answer:?}");
        }
        let answer = person
            .browser
            .submit(&format!("{page}/pin"), &fields)
            .await?;
        assert_eq!(answer.is_allowed(), may, "{role:?}: {answer:?}");
        // Refresh patches CDI's objects, which no Medley role permits.
        let answer = person
            .browser
            .submit(&format!("{page}/refresh"), &fields)
            .await?;
        assert!(!answer.is_allowed(), "{role:?}: {answer:?}");
        let result = person
            .run(&["images", "refresh", "fedora-amd64", ALONE])
            .await?;
        assert!(!result.is_allowed(), "{role:?}: {result:?}");
        if may {
            policies.delete("default", &DeleteParams::default()).await?;
        }
    }
    assert_eq!(people.len(), ALL.len());
    Ok(())
}
