#!/bin/bash
reach() { timeout 2 bash -c "cat < /dev/tcp/192.0.2.$1/18097" 2> /dev/null; }
[[ $(< /answer) == refused && $(reach 19) == 192.0.2.17 && $(reach 18) == "" ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
