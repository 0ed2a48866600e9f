#!/bin/bash
if [[ $(< /srv/made/link) == made ]] &&
    [[ -x /srv/made/run ]] &&
    [[ ! -e /agents-own && ! -e /solution ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
