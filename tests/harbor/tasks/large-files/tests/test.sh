#!/bin/bash
if [[ $(stat -c %s /srv/large/zeros) == 100000000 ]] &&
    (( $(stat -c %s /logs/agent/oracle.txt) >= 3000000 )); then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
