#!/bin/bash
id -un > /home/user/who
echo $HOME >> /home/user/who
touch /usr/refused 2> /dev/null || echo refused >> /home/user/who
