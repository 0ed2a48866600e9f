#!/bin/bash
[[ $(< /answer) == $'192.0.2.17\nrefused\n192.0.2.17' ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
