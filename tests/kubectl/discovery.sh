# Served groups and resources, and raw paths.
. "$(dirname "$0")/lib.sh"
widgets

like 'configmaps +cm +v1 +true +ConfigMap' k api-resources
like 'namespaces +ns +v1 +false +Namespace' k api-resources
like 'deployments +deploy +apps/v1 +true +Deployment' k api-resources
like 'customresourcedefinitions +crd,crds +apiextensions.k8s.io/v1 +false +CustomResourceDefinition' k api-resources
like "widgets +wd +$GROUP/v1 +true +Widget" k api-resources
like "widgets.$GROUP" k api-resources --api-group="$GROUP" -o name
lacks namespaces k api-resources --namespaced=true -o name
prints configmaps k api-resources --verbs=create,watch -o name
like "widgets +wd .*create,.*" k api-resources -o wide
like 'apps/v1' k api-versions
like 'v1' k api-versions
like "$GROUP/v1" k api-versions
like 'Server Version: v1\.36\.[0-9]+.*' k version

is ok k get --raw /readyz
is ok k get --raw /livez
is ok k get --raw /healthz
prints '[+]ping ok' k get --raw '/readyz?verbose'
prints '"minor": "36"' k get --raw /version
prints '"kind":"APIResourceList"' k get --raw /api/v1
prints '"kind":"APIGroupList"' k get --raw /apis
prints "\"name\":\"$GROUP\"" k get --raw /apis
prints '"kind":"ConfigMapList"' k get --raw "/api/v1/namespaces/$NAMESPACE/configmaps"
prints '"openapi":"3.0.0"' k get --raw /openapi/v3/api/v1
prints "/openapi/v3/apis/$GROUP/v1?hash=" k get --raw /openapi/v3
fails 'Error from server (NotFound): the server could not find the requested resource' k get --raw /nonsense
fails 'the server could not find the requested resource' k get --raw /api/v1/nonsense

# Short names, groups, categories, several kinds.
k apply -f - >/dev/null <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 3, color: blue}
END
for name in wd widget widgets "widgets.$GROUP" "widgets.v1.$GROUP"; do
    is "widget.$GROUP/w" k get "$name" -o name
done
prints "widget.$GROUP/w" k get demo -o name
like 'w +3' k get wd
like 'NAME +SIZE' k get wd
like 'w +3 +blue' k get wd -o wide
is "widget.$GROUP/w" k get wd --field-selector spec.color=blue -o name
is '' k get wd --field-selector spec.color=red -o name
fails 'field label not supported: spec.size' k get wd --field-selector spec.size=3

# Deleting a CRD deletes its objects and removes its kind.
"$KUBECTL" delete crd "widgets.$GROUP" >/dev/null
eventually sh -c "! '$KUBECTL' get --raw '/apis/$GROUP/v1' >/dev/null 2>&1"
fails 'the server could not find the requested resource' k get wd
