#!/bin/bash
if [[ $(< /home/user/who) == $'user\n/home/user\nrefused' ]] &&
    [[ $(stat -c %U /home/user/who) == user ]] &&
    [[ $(id -un) == user ]] &&
    [[ $(stat -c %U /tests/test.sh) == root ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
