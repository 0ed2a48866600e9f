#!/bin/bash
value="it's \"\$HOME\" \$\$"
[[ $(< /answer) == "main|$value|" && $(< /shared/sidecar) == "sidecar|$value||" ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
