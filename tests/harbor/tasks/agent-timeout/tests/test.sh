#!/bin/bash
# Nothing of the agent's command is left.
for attempt in {1..50}; do
    first=$(< /tmp/beat)
    sleep 0.3
    [[ $first == $(< /tmp/beat) ]] && break
done
[[ -n $first && $first == $(< /tmp/beat) ]] && ! pgrep -x sleep > /dev/null
echo $(( $? == 0 )) > /logs/verifier/reward.txt
