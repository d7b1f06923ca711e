//! Lets all authenticated users view and clone golden images: one Role and its RoleBinding.

use api::ssp::{GOLDEN_NAMESPACE, SSP};
use golden_images::ssp::view::{self, NAME};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use runtime::{Absent as _, Error, Key, Writer};
use serde::Serialize;

use super::{COMPONENT, SspController};

impl SspController {
    /// Creates the Role and RoleBinding, once the namespace exists.
    pub(super) async fn grant_view(&self, ssp: &SSP) -> Result<(), Error> {
        if self.namespaces.get("", GOLDEN_NAMESPACE).is_none() {
            return Ok(());
        }
        let (role, binding) = (view::role(ssp), view::binding(ssp));
        let same = |live: &Role| live.rules == role.rules;
        put(&self.client, ssp, &role, same).await?;
        let same = |live: &RoleBinding| live.subjects == binding.subjects;
        put(&self.client, ssp, &binding, same).await
    }

    /// Deletes both, like the other objects created for an SSP.
    pub(super) async fn revoke_view(&self, ssp: &SSP) -> Result<(), Error> {
        remove::<RoleBinding>(&self.client, ssp).await?;
        remove::<Role>(&self.client, ssp).await
    }
}

fn title<K: Resource<DynamicType = ()>>() -> String {
    format!("{} {GOLDEN_NAMESPACE}/{NAME}", K::kind(&()))
}

async fn find<K>(client: &Client) -> Result<(Api<K>, Option<K>), Error>
where
    K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<K> = Api::namespaced(client.clone(), GOLDEN_NAMESPACE);
    let live = api.get(NAME).await.not_found_as_none();
    let live = live.map_err(Error::api(format!("getting {}", title::<K>())))?;
    Ok((api, live))
}

/// Creates or updates an object, unless it is current or not ours.
async fn put<K>(
    client: &Client,
    ssp: &SSP,
    wanted: &K,
    same: impl Fn(&K) -> bool,
) -> Result<(), Error>
where
    K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope> + Serialize,
{
    let (api, live) = find::<K>(client).await?;
    if live.is_some_and(|live| same(&live) || !view::is_of(live.meta(), ssp)) {
        return Ok(());
    }
    let writer = Writer::new(api, COMPONENT);
    writer.apply(&Key::of(wanted.meta()), wanted).await?;
    Ok(())
}

async fn remove<K>(client: &Client, ssp: &SSP) -> Result<(), Error>
where
    K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
{
    let (api, live) = find::<K>(client).await?;
    let own = |meta: &&ObjectMeta| view::is_of(meta, ssp);
    let Some(meta) = live.as_ref().map(K::meta).filter(own) else {
        return Ok(());
    };
    Writer::new(api, COMPONENT).delete(meta).await?;
    Ok(())
}
