#!/bin/bash
cat /shared/ready > /shared/answer
[[ -e /main && ! -e /srv/kept ]] && getent hosts keeper > /dev/null && echo found >> /shared/answer
