#!/bin/bash
set -e
mkdir -p /srv/large/deep/{1..30}/empty
head -c 100000000 /dev/zero > /srv/large/zeros
head -c 20000000 /dev/urandom > /srv/large/noise
for i in {1..300}; do echo $i > /srv/large/deep/1/$i; done
sha256sum /srv/large/noise | cut -d ' ' -f 1 > /srv/large/sum
head -c 3000000 /dev/zero | tr '\0' x
