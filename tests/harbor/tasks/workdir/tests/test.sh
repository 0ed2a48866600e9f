#!/bin/bash
if [[ $(< "/custom/work dir/where") == "/custom/work dir" ]] &&
    [[ $PWD == "/custom/work dir" ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
