#!/bin/bash
if [[ $(< /srv/app/answer.txt) == $'hello from /srv/app\ntool' ]] &&
    [[ ! -e /srv/app/ignored ]] &&
    [[ $PATH == /srv/app/bin:* ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
