#!/bin/bash
[[ $(< /srv/kept/word) == word && $(< /srv/collected) == "collected by root" ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
