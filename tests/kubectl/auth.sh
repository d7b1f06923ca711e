# Who somebody is and what they may do.
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

# A token does not outlive its account.
k delete serviceaccount robot >/dev/null
# (kube-apiserver remembers for some seconds what a token was worth)
soon eval '! as --token "$token" auth whoami >/dev/null 2>&1'
fails 'You must be logged in to the server' as --token "$token" auth whoami
