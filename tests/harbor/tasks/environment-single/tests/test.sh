#!/bin/bash
if [[ $(< /answer) == $'it\'s "quoted"|$5 $HOME $$|one\ntwo|by default|yes||' ]] &&
    [[ $ONLY_VERIFIER == yes && -z $ONLY_SOLUTION ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
