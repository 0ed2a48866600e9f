#!/bin/bash
mkdir -p /srv/made/empty
echo made > /srv/made/file
ln -s file /srv/made/link
echo '#!/bin/sh' > /srv/made/run
chmod 755 /srv/made/run
