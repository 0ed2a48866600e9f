#!/bin/bash
if [[ $(< /home/user/who) == 1000 ]] &&
    [[ $(id -u) == 1000 ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
