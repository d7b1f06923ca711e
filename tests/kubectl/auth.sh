# Authentication and authorization.
. "$(dirname "$0")/lib.sh"

like 'Username +admin' k auth whoami
like 'Groups +\[system:masters system:authenticated\]' k auth whoami
is yes k auth can-i create configmaps
is yes k auth can-i '*' '*'
is yes k auth can-i get /readyz
k create serviceaccount robot >/dev/null
token=$(k create token robot)
server=$("$KUBECTL" config view --raw -o 'jsonpath={.clusters[0].cluster.server}')
"$KUBECTL" config view --raw -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d > ca.crt
: > empty
as() { "$KUBECTL" --kubeconfig empty --server "$server" --certificate-authority ca.crt "$@"; }
like "Username +system:serviceaccount:$NAMESPACE:robot" as --token "$token" auth whoami
like "Groups +\[system:serviceaccounts system:serviceaccounts:$NAMESPACE system:authenticated\]" as --token "$token" auth whoami
fails 'You must be logged in to the server' as --token nonsense get configmaps
fails 'forbidden: User "system:anonymous" cannot get path "/api"' as --username u --password p get --raw /api
is ok as --username u --password p get --raw /readyz

# A role and a binding grant permissions.
me="system:serviceaccount:$NAMESPACE:robot"
fails "configmaps is forbidden: User \"$me\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"$NAMESPACE\"" as --token "$token" -n "$NAMESPACE" get configmaps
fails no k auth can-i list configmaps --as "$me"
is "role.rbac.authorization.k8s.io/reader created" k create role reader --verb=get,list --resource=configmaps --resource=deployments.apps/scale
is "rolebinding.rbac.authorization.k8s.io/robots created" k create rolebinding robots --role=reader --serviceaccount="$NAMESPACE:robot"
eventually k auth can-i list configmaps --as "$me"
is yes k auth can-i get deployments.apps --subresource=scale --as "$me"
fails no k auth can-i list configmaps --as "$me" --all-namespaces
prints "No resources found" as --token "$token" -n "$NAMESPACE" get configmaps
like 'configmaps +\[\] +\[\] +\[get list\]' k auth can-i --list --as "$me"
like 'robots +Role/reader +[0-9]+s' k get rolebindings robots
k create role granter --verb=create --resource=rolebindings >/dev/null
k create rolebinding granter --role=granter --group="$NAMESPACE-admins" >/dev/null
eventually k auth can-i create rolebindings --as robot-admin --as-group "$NAMESPACE-admins"
fails 'is attempting to grant RBAC permissions not currently held' k create rolebinding more --clusterrole=cluster-admin --user=x --as robot-admin --as-group "$NAMESPACE-admins"

# `auth reconcile` adds missing rules.
cat > roles.yaml <<END
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: $NAMESPACE}
rules: [{apiGroups: [""], resources: [configmaps, secrets], verbs: [get]}]
END
prints 'role.rbac.authorization.k8s.io/reader reconciled' k auth reconcile -f roles.yaml
eventually k auth can-i get secrets --as "$me"
is yes k auth can-i list configmaps --as "$me"

# A token is invalid after its service account is deleted.
k delete serviceaccount robot >/dev/null
# (kube-apiserver caches token authentication for some seconds)
eventually eval '! as --token "$token" auth whoami >/dev/null 2>&1'
fails 'You must be logged in to the server' as --token "$token" auth whoami
