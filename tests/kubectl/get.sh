# Reading: all output formats, selectors, sorting.
. "$(dirname "$0")/lib.sh"

is "No resources found in $NAMESPACE namespace." k get configmaps
k create configmap b --from-literal=x=1 --from-literal=y=2 >/dev/null
k create configmap a --from-literal=x=1 >/dev/null
k create configmap c >/dev/null
k label configmap a tier=front >/dev/null
k label configmap b tier=back >/dev/null

# Tables.
like 'NAME +DATA +AGE' k get cm
like 'a +1 +[0-9]+s' k get cm
like 'b +2 +[0-9]+s' k get configmap
like 'a +1 +[0-9]+s' k get cm --no-headers
like 'a +1 +[0-9]+s +front' k get cm -L tier
like 'b +2 +[0-9]+s +tier=back' k get cm --show-labels
like "$NAMESPACE +c +0 +[0-9]+s" k get cm -A
like 'default +Active +.*' k get namespaces

# Other formats.
is "configmap/a
configmap/b
configmap/c" k get cm -o name
is 'a b c' k get cm -o 'jsonpath={.items[*].metadata.name}'
prints 'kind: List' k get cm -o yaml
lacks managedFields k get cm a -o yaml
prints 'manager: kubectl-create' k get cm a -o yaml --show-managed-fields
prints '"kind": "ConfigMap"' k get cm a -o json
is "NAME   X
a      1
b      1
c      <none>" k get cm -o custom-columns=NAME:.metadata.name,X:.data.x

# Selectors and sorting.
is configmap/a k get cm -l tier=front -o name
is "configmap/a
configmap/b" k get cm -l 'tier in (front,back)' -o name
is configmap/c k get cm -l '!tier' -o name
is configmap/b k get cm --field-selector metadata.name=b -o name
is "configmap/a
configmap/c" k get cm --field-selector metadata.name!=b -o name
is "configmap/c
configmap/a
configmap/b" k get cm --sort-by='{.data.y}' -o name
like 'b +2 +[0-9]+s' k get cm --sort-by=.metadata.name
is "configmap/a
configmap/b
configmap/c" k get cm --chunk-size=1 -o name

# Several at once, and missing objects.
prints 'configmap/a' k get cm/a cm/b -o name
fails 'Error from server (NotFound): configmaps "zz" not found' k get cm zz
fails 'error: the server doesn'"'"'t have a resource type "nonsense"' k get nonsense
is '' k get cm zz --ignore-not-found
fails 'Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "a in", field selector "": unable to parse requirement' k get cm -l 'a in'
fails '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"' k get cm --field-selector data.x=1

# Kinds with more columns.
k create deployment web --image=nginx --replicas=2 >/dev/null
like 'web +0/2 +0 +0 +[0-9]+s' k get deployments
like 'web +0/2 +0 +0 +[0-9]+s +nginx +nginx +app=web' k get deploy -o wide
like 'NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR' k get deploy -o wide
prints 'deployment.apps/web' k get all
k create service clusterip web --tcp=80:8080 >/dev/null
like 'web +ClusterIP +10\.[0-9.]+ +<none> +80/TCP +[0-9]+s' k get service web
