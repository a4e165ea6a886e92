#!/bin/sh
# Print the Secret of a group for kubectl apply --filename -: its group file, and for each pod an
# archive of its member's certificate and key. Run it where tidings group has written both:
#
#   at=tidings.default.svc.cluster.local:7001
#   tidings group tidings-0=tidings-0.$at tidings-1=tidings-1.$at tidings-2=tidings-2.$at --metrics 9464
#   sh secret.sh | kubectl apply --filename -
set -eu
encoded() { base64 | tr -d '\n'; }
printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: tidings\ntype: Opaque\ndata:\n'
printf '  group.toml: %s\n' "$(encoded <group.toml)"
# Of a pod that lost its disk, the newest name: tidings-2+1 is in tidings-2.tar.
for pod in $(ls certs | sed 's/+.*//' | sort -u); do
	member=$(ls certs | grep -E "^$pod(\+[0-9]+)?$" | sort -V | tail -n 1)
	printf '  %s.tar: %s\n' "$pod" "$(tar --create --directory certs "$member" | encoded)"
done
